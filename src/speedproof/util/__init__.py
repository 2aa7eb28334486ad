"""What every room uses: errors, child processes, numbers, the environment."""
