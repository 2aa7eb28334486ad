"""The spleen workload: programs that train, their data, and what the instrument must know of them."""
