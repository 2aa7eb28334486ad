"""Marks of programs whose framework owns the loop: a callback each, which imports its framework when it is made."""
