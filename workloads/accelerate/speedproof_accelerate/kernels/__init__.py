"""Our own GPU kernels, in Triton, for what no library's fits; each has a reference in plain torch that tests compare with."""
