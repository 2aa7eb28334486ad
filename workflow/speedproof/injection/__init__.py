"""A program's own NVTX ranges in a run that is not profiled: the library that NVTX loads into it, and what that leaves."""
