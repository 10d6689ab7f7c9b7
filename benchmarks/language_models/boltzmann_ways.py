"""Ways of training restricted Boltzmann machines of words, and their learning rates, on a small text.

    python -m benchmarks.language_models.boltzmann_ways

The text is the beginning of the training text of Penn Treebank, so that no table of its validation or test text is
touched. Every fit is kept; a run that was interrupted goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import parts, reporting
from benchmarks.language_models import contexts
from benchmarks.language_models.kept import kept
from tacenda import Corpus, datasets
from tacenda.corpus.text import sentences_of
from tacenda_lm import FRBM, KneserNey, LanguageModel, Mixture, TemporalFRBM

TYPES, TRAIN, HELD_OUT = 1000, 2000, 300
SHARED: dict[str, Any] = {"features": 40, "hidden": 40, "batch_words": 300, "epochs": 5}
WAYS: dict[str, dict[str, Any]] = {
    "likelihood": {},
    "CD, drawn words": {"learning": "divergence"},
    "CD, mean field": {"learning": "mean_field"},
}
RATES = (0.1, 0.2, 0.4)
PROTOCOL = {
    "text": f"the first {TRAIN:,} sentences of the training text of Penn Treebank over their {TYPES:,} most frequent "
    f"words, all others <unk>; valid and test: the next {HELD_OUT} sentences, and those after them",
    "context": contexts.PROTOCOL,
    "model": "40 features, 40 hidden units, two words of context, steps of 300 words, at most 5 epochs; the temporal "
    "machine begins with the plain one, and goes on for at most 5 epochs at the same rate; the best epoch by valid",
    "rate": "the learning rate of 0.1, 0.2 and 0.4 at which the plain machine's valid perplexity as a stream is best",
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


def plain(text: dict[str, Corpus], way: str) -> tuple[FRBM, float, float]:
    """The machine of the best rate, that rate, and the CPU seconds of its fit."""
    best: tuple[float, FRBM, float, float] | None = None
    for rate in RATES:
        settings = {**SHARED, **WAYS[way], "learning_rate": rate}

        def fit(folder: Path, settings: dict[str, Any] = settings) -> FRBM:
            return FRBM(**settings).fit(text["train"], text["valid"], checkpoints=folder)

        model, took = kept("frbm-small", settings, parts.MACHINES, fit)
        found = model.perplexity(text["valid"], context="stream").value
        print(f"{way}, {rate}: {found:.2f} (valid)", flush=True)
        if best is None or found < best[0]:
            best = found, model, rate, took["CPU s"]
    assert best is not None
    return best[1:]


def temporal(text: dict[str, Corpus], begin: FRBM) -> tuple[TemporalFRBM, float]:
    """The temporal machine that begins with a plain one, and the CPU seconds of its fit."""
    likelihood = begin.settings.learning == "likelihood"
    options = {} if likelihood else {"piece_words": 1}
    model, took = kept(
        "temporal-frbm-small",
        {**begin.settings.to_dict(), **options},
        parts.MACHINES,
        lambda folder: TemporalFRBM.starting_from(begin, **options).fit(
            text["train"], text["valid"], checkpoints=folder
        ),
    )
    return model, took["CPU s"]


def main() -> None:
    reporting.Command(__doc__).parse_args()
    text = texts()
    held_out = {name: text[name] for name in ("valid", "test")}
    ngrams = KneserNey(order=5).fit(text["train"])
    rows: list[Row] = []

    def add(name: str, model: LanguageModel, **more: Any) -> None:
        for row in contexts.perplexities(model, held_out, weights_on=text["valid"]):
            rows.append({"model": name, **more, **row})

    add("KneserNey(5)", ngrams)
    for way in WAYS:
        begin, rate, took = plain(text, way)
        remembering, took_more = temporal(text, begin)
        for name, model, seconds in (
            ("FRBM", begin, took),
            ("temporal FRBM", remembering, took_more),
        ):
            add(name, model, learning=way, rate=rate, **{"CPU s": seconds})
            mixture = Mixture({"machine": model, "kneser_ney": ngrams})
            add(f"{name} + KneserNey(5)", mixture, learning=way)
    reporting.save("lm-boltzmann-ways", PROTOCOL, rows, seeds=(0,))


if __name__ == "__main__":
    main()
