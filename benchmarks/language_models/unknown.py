"""What unknown words cost in each way to score them, and bits per character as the vocabulary shrinks.

    python -m benchmarks.language_models.unknown

The good and featured articles of English Wikipedia, from TACENDA_DATA; a minute on one core.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.reporting import Row, Table, main
from tacenda import Corpus, datasets
from tacenda_lm import KneserNey, surprisal_table

ORDER, MIN_COUNT, PARAGRAPHS = 3, 3, 250
SIZES = (None, 5000, 500, 50)
WAYS: dict[str, dict[str, Any]] = {"spelling": {}, "even": {"unseen_types": 1_000_000}, "class": {}}
PROTOCOL = {
    "model": f"KneserNey({ORDER}) of the dev part, words seen less than {MIN_COUNT} times are unknown",
    "text": f"the first {PARAGRAPHS} lines of the test part",
    "way": "mean bits of unknown words, of the rarest tenth of the known words, and of all words, punctuation apart",
    "vocabulary": "bits per character as measured, and without what the spelling of unknown words costs (unpaid)",
}


def fitted(size: int | None) -> KneserNey:
    dev = datasets.locate("wikipedia-good-articles")["dev"]
    options: dict[str, Any] = {"max_vocabulary": size, "min_count": MIN_COUNT}
    return KneserNey(order=ORDER).fit(Corpus.from_text(dev, tokenizer="words", **options))


def rows(_: Any) -> Iterator[Row]:
    with datasets.locate("wikipedia-good-articles")["test"].open(encoding="utf-8") as stream:
        text = "".join(islice(stream, PARAGRAPHS))
    model = fitted(None)
    for way, options in WAYS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of the way "class"
            found: Any = surprisal_table(model, text, previous=0, unknown=way, **options)  # type: ignore[arg-type]
        known, bits = np.asarray(found["known"], bool), np.asarray(found["surprisal"], float)
        frequency = np.asarray(found["log_frequency"], float)
        rare = known & (frequency <= np.nanquantile(frequency[known], 0.1))
        row = {"unknown": bits[~known].mean(), "rare": bits[rare].mean(), "all": bits.mean()}
        yield {"part": "way", "way": way, "unknown words": int((~known).sum()), **row}
    for size in SIZES:
        measured = fitted(size).perplexity(text, tokenizer="words")
        assert measured.n_characters is not None
        yield {
            "part": "vocabulary",
            "words kept": size or "all",
            "unknown share": measured.oov_rate,
            "bits per character": measured.bits_per_character,
            "unpaid": -measured.log_prob / math.log(2) / measured.n_characters,
            "perplexity": measured.value,
        }


if __name__ == "__main__":
    main(__doc__, Table("lm-unknown", PROTOCOL, rows, seeds=None))
