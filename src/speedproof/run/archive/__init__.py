"""Finished results: closing, archiving and rebuilding them, and estimating costs from them."""
