"""Letter prediction on a Finnish book, after Siivola and Honkela: state-space models beside n-grams.

    python -m benchmarks.language_models.state_space [--studies test-sparse sparse test-dense dense ...]

The book (`alastalon-salissa`) is in TACENDA_DATA or the cache. What each fit finds is kept, so
an interrupted run goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.language_models.state_space import fits
from benchmarks.language_models.state_space.studies import SEEDS, STUDIES, Measured
from benchmarks.reporting import Row, Table, main


def _listed(offsets: tuple[int, ...]) -> str:
    return ", ".join(f"{offset:,}" for offset in offsets)


PROTOCOL = {
    "text": "Volter Kilpi, Alastalon salissa: lower-case letters and the space between words, which counts as a letter",
    "excerpts": f"{len(fits.OFFSETS)}, beginning at the letters {_listed(fits.OFFSETS)}; each has "
    f"{fits.DENSE:,} letters of dense training text, the last {fits.SPARSE:,} of which are the sparse one, "
    f"{fits.DEVELOPMENT:,} of development and {fits.TEST:,} of test text",
    "perplexity": "the paper's (eq 13): letters that the training text does not have are left out of the mean and of "
    "N, and stay in the history as unknown; </s> is not asked for, though every model keeps some probability for it "
    "and for <unk>",
    "context": "every text is scored as one sentence that begins anew",
    "chosen": "dimensions, orders and kinds of n-grams by the mean perplexity of the development texts, by which "
    "training stops too, as in the paper; all other settings on excerpts that no table shows, which begin at "
    f"{_listed(fits.TUNING)}",
    "ratio": "to the perplexity of the best n-gram on the same excerpt",
    "spread": "standard deviation over the excerpts",
    "CPU s": "of the processor, one thread, a fit and its evaluations; means over the excerpts",
}
NAME = "lm-state-space"


def rows(options: Any) -> Iterator[Row]:
    for study in options.studies:
        for row in STUDIES[study](Measured(fits.OFFSETS)):
            yield {"row": f"{row['part']}, {list(row.values())[1]}", **row}


if __name__ == "__main__":
    main(__doc__, Table(NAME, PROTOCOL, rows, key="row", seeds=SEEDS), studies=tuple(STUDIES))
