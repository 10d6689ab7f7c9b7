"""Log-bilinear models on Penn Treebank (Mikolov's split): perplexity alone and with n-grams.

    python -m benchmarks.language_models.log_bilinear

The data are in TACENDA_DATA or the cache. The fitted default model is kept; `caches` takes
the same one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.language_models import contexts
from benchmarks.reporting import Row, Table, main
from tacenda_lm import HLBL, KneserNey, LanguageModel, Mixture

PROTOCOL = {
    "text": contexts.TEXT,
    "context": contexts.PROTOCOL,
    "settings": "the defaults of HLBL, which were chosen by the perplexity of this validation text; the test text was "
    "scored after that",
    "mixture": "linear, its weights fitted to the validation text, in the context of the row",
    "CPU s": "of the whole fit: the bootstrap, the tree, the epochs and their evaluations; one thread",
}


def rows(options: Any) -> Iterator[Row]:
    texts = contexts.Texts()
    hlbl, fit = contexts.fitted(HLBL(), "ptb", texts.train, texts.valid)
    if options.wants("fit"):
        epochs = hlbl.fitted_on["training"]["epochs"]
        yield {"part": "fit", "model": "HLBL", **fit, "epochs": epochs}
    ngrams = KneserNey(order=5).fit(texts.train)
    models: dict[str, LanguageModel] = {
        "HLBL": hlbl,
        "KneserNey(5)": ngrams,
        "HLBL + KneserNey(5)": Mixture({"hlbl": hlbl, "kneser_ney": ngrams}),
    }
    for name in options.chosen(models):
        model = models[name]
        for row in contexts.perplexities(model, texts.held_out, weights_on=texts.valid):
            yield {"part": "perplexity", "model": name, **row}


if __name__ == "__main__":
    main(__doc__, Table("lm-log-bilinear", PROTOCOL, rows))
