"""One thread for the BLAS, ours and our peers', unless the environment says otherwise: imported before numpy.

Times are per core, and a benchmark does not take the machine from its neighbors.
"""

import os

for _library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
