"""Perplexities in both contexts, as every table of language models shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tacenda import Corpus, datasets
from tacenda_lm import LanguageModel, Mixture
from tacenda_lm.perplexity import Context


class Texts:
    """Train, valid and test of a data set over the words of its training text; empty lines are left out."""

    def __init__(self, name: str = "ptb") -> None:
        files = datasets.locate(name)
        self.train = Corpus.from_text(files["train"])
        words = self.train.vocabulary
        self.valid, self.test = (
            Corpus.from_text(files[role], vocabulary=words) for role in ("dev", "test")
        )

    @property
    def held_out(self) -> dict[str, Corpus]:
        return {"valid": self.valid, "test": self.test}


CONTEXTS: tuple[Context, ...] = ("sentence", "stream")
EITHER = "either"
PROTOCOL = (
    "sentence: each sentence by itself, after <s>; stream: the running text, each sentence after all before it; "
    "either: the model begins anew after every </s>, and both were measured and are the same"
)


def perplexities(
    model: LanguageModel,
    texts: Mapping[str, Corpus],
    weights_on: Corpus | None = None,
    without_unknown: bool = False,
) -> Iterator[dict[str, Any]]:
    """One row for each context, or one for both if the model begins anew after ``</s>``.

    Parameters
    ----------
    model
        Fitted.
    texts
        What to measure, by the name of its column.
    weights_on
        Held-out text on which a mixture's weights are fitted, in the context of the row.
    without_unknown
        Add columns that leave out the words outside the vocabulary.
    """
    rows = []
    for context in CONTEXTS:
        row: dict[str, Any] = {"context": context}
        if isinstance(model, Mixture) and weights_on is not None:
            row["weights"] = model.fit_weights(weights_on, context=context).weights
        for name, text in texts.items():
            found = model.perplexity(text, context=context)
            row[name] = found.value
            if without_unknown:
                row[f"{name} without unknown"] = found.without_oov
        rows.append(row)
    if model.own_context == "sentence":
        first, second = rows
        if any(abs(first[name] / second[name] - 1) > 1e-6 for name in texts):
            raise SystemExit(f"{model!r} says that it sees no word before </s>: {rows}")
        rows = [{**first, "context": EITHER}]
    yield from rows
