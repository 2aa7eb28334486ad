"""What the workloads share: the commands that prepare them, and published programs beside ours."""
