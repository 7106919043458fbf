"""Pictures without a screen; one thread of PyTorch and of BLAS for each of the processes that tests run in."""

import os

os.environ.setdefault("MPLBACKEND", "Agg")
# two processes with two threads each would wait for each other on two cores
os.environ.setdefault("OMP_NUM_THREADS", "1")
