"""`speedproof prove`: from commands to a workload, through the workflow, to one sentence and an exit status."""
