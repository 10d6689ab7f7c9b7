"""Ways of training restricted Boltzmann machines of words, and their learning rates, on a small text.

    python -m benchmarks.language_models.boltzmann_ways

The text is the beginning of the training text of Penn Treebank, so that no table of its validation or test text is
touched. Every fit is kept; a run that was interrupted goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from benchmarks.language_models import contexts
from benchmarks.reporting import Row, Table, main
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


def texts() -> dict[str, Corpus]:
    """Return the three parts of the text, over the words of the first."""
    lines = list(islice(sentences_of(datasets.locate("ptb")["train"]), TRAIN + 2 * HELD_OUT))
    train = Corpus.from_sentences(lines[:TRAIN], max_vocabulary=TYPES)
    found = {"train": train}
    for i, name in enumerate(("valid", "test")):
        part = lines[TRAIN + i * HELD_OUT : TRAIN + (i + 1) * HELD_OUT]
        found[name] = Corpus.from_sentences(part, vocabulary=train.vocabulary)
    return found


def plain(text: dict[str, Corpus], way: str) -> tuple[FRBM, float, float]:
    """Return the machine of the best rate, that rate, and the CPU seconds of its fit."""
    found = []
    for rate in RATES:
        machine = FRBM(**SHARED, **WAYS[way], learning_rate=rate)
        model, took = contexts.fitted(machine, "ptb-small", text["train"], text["valid"])
        value = model.perplexity(text["valid"], context="stream").value
        print(f"{way}, {rate}: {value:.2f} (valid)", flush=True)
        found.append((value, rate, model, took["CPU s"]))
    _, rate, model, seconds = min(found, key=lambda each: each[:2])
    return model, rate, seconds


def temporal(text: dict[str, Corpus], begin: FRBM, way: str) -> tuple[TemporalFRBM, float]:
    """Return the temporal machine that begins with a plain one, and the CPU seconds of its fit."""
    options = {} if begin.settings.learning == "likelihood" else {"piece_words": 1}
    machine = TemporalFRBM.starting_from(begin, **options)
    model, took = contexts.fitted(machine, "ptb-small", text["train"], text["valid"], begin=way)
    return model, took["CPU s"]


def rows(options: Any) -> Iterator[Row]:
    text = texts()
    held_out = {name: text[name] for name in ("valid", "test")}
    ngrams = KneserNey(order=5).fit(text["train"])

    def of(name: str, model: LanguageModel, **more: Any) -> Iterator[Row]:
        for row in contexts.perplexities(model, held_out, weights_on=text["valid"]):
            yield {"model": name, **more, **row}

    yield from of("KneserNey(5)", ngrams)
    for way in options.chosen(WAYS):
        begin, rate, took = plain(text, way)
        remembering, took_more = temporal(text, begin, way)
        for name, model, seconds in (
            ("FRBM", begin, took),
            ("temporal FRBM", remembering, took_more),
        ):
            yield from of(name, model, learning=way, rate=rate, **{"CPU s": seconds})
            mixture = Mixture({"machine": model, "kneser_ney": ngrams})
            yield from of(f"{name} + KneserNey(5)", mixture, learning=way)


if __name__ == "__main__":
    main(__doc__, Table("lm-boltzmann-ways", PROTOCOL, rows))
