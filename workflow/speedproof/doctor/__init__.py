"""What this machine can do, can measure and cannot, each with its cure: asked before anything trains."""
