"""Log-bilinear models on Penn Treebank (Mikolov's split): perplexity alone and with n-grams.

    python -m benchmarks.language_models.log_bilinear

The data are in TACENDA_DATA or the cache. The fitted default model is kept; `log_bilinear_speed` and `scorer` take
the same one.
"""

from __future__ import annotations

from typing import Any

from benchmarks import parts, reporting
from benchmarks.language_models import contexts
from benchmarks.language_models.kept import kept
from tacenda import Corpus
from tacenda_lm import HLBL, KneserNey, LanguageModel, Mixture

PROTOCOL = {
    "text": "a line is a sentence; <unk> is an ordinary word; </s> is predicted, <s> is not; closed vocabulary",
    "context": contexts.PROTOCOL,
    "settings": "the defaults of HLBL, which were chosen by the perplexity of this validation text; the test text was "
    "scored after that",
    "mixture": "linear, its weights fitted by EM on the validation text, in the context of the row",
    "CPU s": "of the whole fit: the bootstrap, the tree, the epochs and their evaluations; one thread",
}


def fitted(
    train: Corpus, valid: Corpus | None, on: str = "ptb", **settings: Any
) -> tuple[HLBL, dict[str, Any]]:
    """The model of a text with these settings, kept under the name ``on``, and what its fit took."""
    model = HLBL(**settings)
    return kept(
        f"hlbl-{on}",
        model.settings.to_dict(),
        parts.BILINEAR,
        lambda checkpoints: model.fit(train, valid, checkpoints=checkpoints),
    )


def main() -> None:
    reporting.Command(__doc__).parse_args()
    texts = contexts.Texts()
    train = texts.train
    hlbl, fit = fitted(train, texts.valid)
    ngrams = KneserNey(order=5).fit(train)
    models: dict[str, LanguageModel] = {
        "HLBL": hlbl,
        "KneserNey(5)": ngrams,
        "HLBL + KneserNey(5)": Mixture({"hlbl": hlbl, "kneser_ney": ngrams}),
    }
    rows: list[dict[str, Any]] = [
        {"part": "fit", "model": "HLBL", **fit, "epochs": hlbl.settings.epochs}
    ]
    for name, model in models.items():
        for row in contexts.perplexities(model, texts.held_out, weights_on=texts.valid):
            rows.append({"part": "perplexity", "model": name, **row})
    reporting.save("lm-log-bilinear", PROTOCOL, rows, seeds=(0,))


if __name__ == "__main__":
    main()
