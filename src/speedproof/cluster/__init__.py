"""Where jobs run: the machine and what it can measure, the container image, Slurm, several nodes."""
