"""Sides: programs as they are measured, and the readers of what they leave. The programs know nothing of it."""
