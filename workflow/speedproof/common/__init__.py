"""What every room uses: errors, child processes, words and numbers, the environment."""
