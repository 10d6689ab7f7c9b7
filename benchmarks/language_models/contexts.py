"""Texts, kept models, and perplexities in both contexts, as every table of language models shows them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tacenda
from benchmarks import kept, reporting
from benchmarks.reporting import Row
from tacenda import Corpus, datasets
from tacenda_lm import LanguageModel, Mixture
from tacenda_lm.perplexity import Context

TEXT = "a line is a sentence; <unk> is an ordinary word; </s> is predicted, <s> is not; closed vocabulary"


class Texts:
    """Train, valid and test of a data set over the words of its training text; empty lines are left out."""

    def __init__(self, name: str = "ptb") -> None:
        self.name, self.files = name, datasets.locate(name)
        self.train = Corpus.from_text(self.files["train"])
        words = self.train.vocabulary
        self.valid, self.test = (
            Corpus.from_text(self.files[role], vocabulary=words) for role in ("dev", "test")
        )

    @property
    def held_out(self) -> dict[str, Corpus]:
        return {"valid": self.valid, "test": self.test}

    @property
    def test_lines(self) -> list[str]:
        lines = self.files["test"].read_text("utf-8").splitlines()
        return [line for line in lines if line.strip()]


def fitted(
    model: Any, on: str, train: Corpus | Callable[[], Corpus], valid: Corpus | None = None
) -> tuple[Any, Row]:
    """Return a model fitted to a text called ``on``, and what its fit took; fitted now unless it is kept.

    ``train`` may be a function that reads the text.

    Returns
    -------
    The model, and a row with ``fit s`` by the clock, ``CPU s`` of the processor, ``peak GB`` that were resident in the
    process up to the end of the fit, and ``on disk GB``. A fit that went on from a checkpoint has no seconds.
    """

    def make(folder: Path) -> Row:
        text = train() if callable(train) else train
        arguments = [] if valid is None else [valid]
        resumed = {"checkpoints": folder / "checkpoints"} if model.keeps_checkpoints else {}
        wall, processor = time.perf_counter(), time.process_time()
        found = model.fit(text, *arguments, **resumed)
        took = {"fit s": time.perf_counter() - wall, "CPU s": time.process_time() - processor}
        found.save(folder / "model")
        disk = sum(each.stat().st_size for each in (folder / "model").rglob("*")) / 1e9
        return {**took, "peak GB": reporting.peak() / 1e9, "on disk GB": disk}

    facts = {"text": on, "settings": model.settings.to_dict()}
    folder, row = kept.folder(f"{model.name}-{on}", facts, make)
    seconds = row.pop("seconds")
    if seconds is None:
        row |= {"fit s": None, "CPU s": None}
    return tacenda.load(folder / "model"), row


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
) -> Iterator[Row]:
    """Yield one row for each context, or one for both if the model starts again after ``</s>``.

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
        row: Row = {"context": context}
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
