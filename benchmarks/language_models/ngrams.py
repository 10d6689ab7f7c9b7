"""N-gram models: perplexity by order and smoothing on Penn Treebank (Mikolov's split) and WikiText-2.

    python -m benchmarks.language_models.ngrams

The data are in TACENDA_DATA or the cache. `benchmarks.language_models.ngrams_speed` has the times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.language_models import contexts
from benchmarks.reporting import Row, Table, main
from tacenda_lm import KneserNey

MODELS = {
    "modified Kneser-Ney": [KneserNey(order=order) for order in (2, 3, 4, 5, 6)],
    "Kneser-Ney, back-off": [
        KneserNey(order=order, smoothing="backoff", min_count=2) for order in (3, 5)
    ],
    "Good-Turing (Katz)": [
        KneserNey(order=order, smoothing="good_turing", min_count=2) for order in (3, 5)
    ],
}
PROTOCOL = {
    "text": "a line is a sentence, empty lines left out; <unk> in the text is an ordinary word; "
    "</s> is predicted, <s> is not; the vocabulary is closed",
    "context": contexts.PROTOCOL,
    "min_count": "2 where it is not modified Kneser-Ney, as SRILM's default for three words and more",
    "settings": "nothing was chosen on these texts",
}


def rows(options: Any) -> Iterator[Row]:
    for data in options.data:
        texts = contexts.Texts(data)
        for name, models in MODELS.items():
            for model in models:
                what = f"{data}, {name}, {model.order}"
                if options.wants(what):
                    n_grams = sum(model.fit(texts.train).table.sizes)
                    for row in contexts.perplexities(model, texts.held_out):
                        about = {"data": data, "model": name, "order": model.order}
                        yield {"what": what, **about, "n-grams": n_grams, **row}


if __name__ == "__main__":
    table = Table("lm-ngrams", PROTOCOL, rows, key="what", seeds=None)
    main(__doc__, table, data=("ptb", "wikitext-2"))
