"""The tables and figures of Mnih (2010), chapters 3 and 4, on Penn Treebank and WikiText-2.

    python -m benchmarks.language_models.thesis [--data ptb|wikitext-2] [--only STUDY ...] [--without STUDY ...]

Studies: flat (Tables 3.1, 3.2), machines (3.1), frequency (3.3, 3.4, 4.10 to 4.12), random_trees (4.1), widths (4.2),
trees (4.3, 4.4), diversity (4.6), windows (4.7), variance (4.8, 4.9). Every fit is kept and shared by the studies; one
that was interrupted goes on.
"""

from __future__ import annotations

from benchmarks import reporting
from benchmarks.language_models.thesis import studies
from benchmarks.language_models.thesis.fits import Bench, Study
from benchmarks.language_models.thesis.recipes import PLANS
from benchmarks.language_models.thesis.texts import Texts

STUDIES = (
    "trees", "flat", "machines", "random_trees", "frequency", "widths", "windows", "diversity", "variance",
)  # fmt: skip


if __name__ == "__main__":
    options = reporting.parse(__doc__, data=tuple(PLANS), without=[])
    options.whole = True  # every study measures all rows of its tables
    for data in options.data:
        study = Study(Bench(Texts.of(data)), PLANS[data], options)
        for name in options.chosen(STUDIES):
            if name not in options.without:
                getattr(studies, name)(study)
