"""Finished results: closed, kept as records, rebuilt, and what they tell of costs to come."""
