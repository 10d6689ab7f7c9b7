"""Language models: perplexity, speed, and the studies of their sources.

Everything runs on one thread unless a row says otherwise, ours and its peers.
"""

import os

for _library in ("OMP", "OPENBLAS", "MKL"):  # read when numpy or torch is first imported
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
