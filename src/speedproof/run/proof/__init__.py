"""`speedproof prove`: from two commands to an outcome and an exit status."""
