"""Any profile to events, and from these to iterations, phases, idle time and its causes, and differences."""
