"""`speedproof gate`: two commits, one command, one exit status."""
