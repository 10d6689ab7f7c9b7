"""Ways of training restricted Boltzmann machines of words, and their learning rates, on a small text.

    python -m benchmarks.language_models.boltzmann_ways

The text is the beginning of the training text of Penn Treebank, so that no table of its validation or test text is
touched. Every fit is kept; a run that was interrupted goes on.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks import parts, reporting
from benchmarks.language_models import contexts
from benchmarks.language_models.kept import kept
from tacenda import Corpus, datasets
from tacenda.corpus.text import sentences_of
from tacenda_lm import FRBM, KneserNey, LanguageModel, Mixture, TemporalFRBM

TYPES, TRAIN, HELD_OUT = 1500, 3000, 400
SHARED: dict[str, Any] = {"features": 40, "hidden": 40, "batch_words": 300, "epochs": 6}
WAYS: dict[str, dict[str, Any]] = {
    "likelihood": {},
    "CD, drawn words": {"learning": "divergence"},
    "CD, mean field": {"learning": "divergence", "advanced": {"visible": "mean_field"}},
}
RATES = (0.1, 0.2, 0.4)
PROTOCOL = {
    "text": f"the first {TRAIN:,} sentences of the training text of Penn Treebank over their {TYPES:,} most frequent "
    f"words, all others <unk>; valid and test: the next {HELD_OUT} sentences, and those after them",
    "context": contexts.PROTOCOL,
    "model": "40 features, 40 hidden units, two words of context, steps of 300 words, at most 6 epochs; the temporal "
    "machine begins with the plain one of its row, and goes on for at most 6 epochs; the best epoch by valid",
    "rate": "the learning rate whose valid perplexity as a stream is best, of 0.1, 0.2 and 0.4",
    "mixture": "with modified Kneser-Ney 5-grams, weights fitted on valid in the context of the row",
    "CPU s": "of the fits of the row at this rate, on a machine busy with other work",
}
Row = dict[str, Any]


def texts() -> dict[str, Corpus]:
    """The three parts of the text, over the words of the first."""
    lines: list[list[str]] = []
    for sentence in sentences_of(datasets.locate("ptb")["train"]):
        lines.append(sentence)
        if len(lines) == TRAIN + 2 * HELD_OUT:
            break
    train = Corpus.from_sentences(lines[:TRAIN], max_vocabulary=TYPES)
    found = {"train": train}
    for i, name in enumerate(("valid", "test")):
        part = lines[TRAIN + i * HELD_OUT : TRAIN + (i + 1) * HELD_OUT]
        found[name] = Corpus.from_sentences(part, vocabulary=train.vocabulary)
    return found


def machines(text: dict[str, Corpus], way: str, rate: float) -> dict[str, tuple[Any, float]]:
    """A plain and a temporal machine, each with the CPU seconds of its fit."""
    settings = {**SHARED, **WAYS[way], "learning_rate": rate}
    plain, first = kept(
        "frbm-small",
        {"way": way, **settings},
        parts.MACHINES,
        lambda folder: FRBM(**settings).fit(text["train"], text["valid"], checkpoints=folder),
    )
    piece = {} if way == "likelihood" else {"piece_words": 1}
    temporal, second = kept(
        "temporal-frbm-small",
        {"way": way, **settings, **piece},
        parts.MACHINES,
        lambda folder: TemporalFRBM.starting_from(plain, **piece).fit(
            text["train"], text["valid"], checkpoints=folder
        ),
    )
    return {"FRBM": (plain, first["CPU s"]), "temporal FRBM": (temporal, second["CPU s"])}


def chosen(text: dict[str, Corpus], way: str) -> dict[str, tuple[Any, float, float]]:
    """Each machine at its best rate, with the rate and the CPU seconds."""
    best: dict[str, tuple[float, Any, float, float]] = {}
    for rate in RATES:
        for name, (model, seconds) in machines(text, way, rate).items():
            found = model.perplexity(text["valid"], context="stream").value
            print(f"{name}, {way}, {rate}: {found:.2f} (valid)", flush=True)
            if name not in best or found < best[name][0]:
                best[name] = found, model, rate, seconds
    return {name: (model, rate, seconds) for name, (_, model, rate, seconds) in best.items()}


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    text = texts()
    held_out = {name: text[name] for name in ("valid", "test")}
    ngrams = KneserNey(order=5).fit(text["train"])
    rows: list[Row] = []

    def add(name: str, model: LanguageModel, **more: Any) -> None:
        for row in contexts.perplexities(model, held_out, weights_on=text["valid"]):
            rows.append({"model": name, **more, **row})

    add("KneserNey(5)", ngrams)
    for way in WAYS:
        for name, (model, rate, seconds) in chosen(text, way).items():
            add(name, model, learning=way, rate=rate, **{"CPU s": seconds})
            mixture = Mixture({"machine": model, "kneser_ney": ngrams})
            add(f"{name} + KneserNey(5)", mixture, learning=way)
    reporting.save("lm-boltzmann-ways", PROTOCOL, rows, seeds=(0,))


if __name__ == "__main__":
    main()
