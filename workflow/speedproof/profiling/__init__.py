"""How a run is profiled: what is marked, who records it (Nsight Systems or kineto), and how that becomes one trace."""
