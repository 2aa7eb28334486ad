"""Measuring: a block's order, its runs one after the other in fresh processes, and what is kept of an interrupted one."""
