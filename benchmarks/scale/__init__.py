"""How far one machine goes: memory against the length of text, counting on a cluster, and what follows for more.

This file runs before numpy is imported and pins the BLAS to one thread, unless the environment says otherwise.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, os.environ.get("TACENDA_BENCH_THREADS", "1"))
