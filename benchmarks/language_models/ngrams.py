"""N-gram models: perplexity by order and smoothing on Penn Treebank (Mikolov's split) and WikiText-2.

    python -m benchmarks.language_models.ngrams

The data are in TACENDA_DATA or the cache. `benchmarks.language_models.ngrams_speed` has the times.
"""

from __future__ import annotations

from benchmarks import reporting
from benchmarks.language_models import contexts
from tacenda_lm import KneserNey

MODELS = [
    *(KneserNey(order=order) for order in (2, 3, 4, 5, 6)),
    *(KneserNey(order=order, smoothing="backoff", min_count=2) for order in (3, 5)),
    *(KneserNey(order=order, smoothing="good_turing", min_count=2) for order in (3, 5)),
]
NAMES = {
    "interpolated": "modified Kneser-Ney",
    "backoff": "Kneser-Ney, back-off",
    "good_turing": "Good-Turing (Katz)",
}
PROTOCOL = {
    "text": "a line is a sentence, empty lines left out; <unk> in the text is an ordinary word; "
    "</s> is predicted, <s> is not; the vocabulary is closed",
    "context": contexts.PROTOCOL,
    "min_count": "2 where it is not modified Kneser-Ney, as SRILM's default for three words and more",
    "settings": "nothing was chosen on these texts",
}


def main() -> None:
    reporting.Command(__doc__).parse_args()
    rows = []
    for data in ("ptb", "wikitext-2"):
        texts = contexts.Texts(data)
        for model in MODELS:
            model.fit(texts.train)
            about = {
                "data": data,
                "model": NAMES[model.settings.smoothing],
                "order": model.order,
                "n-grams": sum(model.table.sizes),
            }
            for row in contexts.perplexities(model, texts.held_out):
                rows.append({**about, **row})
                print(rows[-1], flush=True)
    reporting.save("lm-ngrams", PROTOCOL, rows)


if __name__ == "__main__":
    main()
