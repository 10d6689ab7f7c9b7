"""The tables and figures of Mnih (2010), chapter 5, on MovieLens-1M.

    python -m benchmarks.ratings.thesis [--only STUDY ...] [--no-save]

Studies: machines (Table 5.1), conditioning (Figures 5.1 and 5.2), factorizations (Table 5.2, Figure 5.3),
frequency (Figures 5.4 and 5.6 to 5.8), cold (Figure 5.5), parameters (Table 5.3), spread (what other seeds change);
all if none is named. Every fit is kept and shared by the studies. Needs matplotlib.
"""

from __future__ import annotations

from benchmarks import reporting
from benchmarks.ratings.thesis import fits, studies
from benchmarks.ratings.thesis.fits import Bench

STUDIES = (
    "machines", "conditioning", "factorizations", "biases", "frequency", "cold", "parameters", "spread",
)  # fmt: skip

if __name__ == "__main__":
    options = reporting.parse(__doc__)
    options.whole = True  # every study measures all rows of its table
    bench = Bench.of(fits.movielens(), options)
    for study in options.chosen(STUDIES):
        print(f"\n{study}", flush=True)
        getattr(studies, study)(bench)
