"""Where jobs run: the container image, folders that the tools can take, Slurm. Command lines are built by pure functions."""
