"""What a fast training step on a GPU takes, apart from any one network: see the README beside this package."""
