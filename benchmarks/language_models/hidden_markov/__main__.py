"""Hidden Markov language models on Penn Treebank.

    python -m benchmarks.language_models.hidden_markov [--only classes step scoring quick fit large ablations sizes
        features] [--checkpoints FOLDER] [--epochs 40]

Penn Treebank (Mikolov's split) from TACIT_DATA or the cache. ``fit`` and ``large`` go on where a killed run stopped if
they are given a folder. ``ablations``, ``sizes`` and ``features`` are the studies of the slides.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks import reporting
from benchmarks.language_models.hidden_markov import speed
from tacit import Corpus, datasets
from tacit_lm import VLHMM, KneserNey, Mixture

PROTOCOL = {
    "text": "a line is a sentence; <unk> is an ordinary word; </s> is predicted, <s> is not; closed vocabulary; "
    "every sentence by itself",
    "choices": "settings were chosen by the perplexity of the validation text",
    "CPU seconds": "of the processor, one thread, all of the fit: classes, training, evaluation after every epoch",
    "step": "parameterisation with width 256, 128 classes, half the states dropped, forward-backward, gradient, Adam; "
    "best of the repeats; both formulations on the same sentences, checked to give the same log-likelihood",
    "scoring": "score_corpus of the test text, ids given, one thread, best of the repeats",
    "mixture": "linear with KneserNey(5), weights fitted by EM on the validation text",
    "studies": "as fit, for the epochs given in the row",
}
MAIN: dict[str, Any] = {"n_classes": 256, "states_per_class": 64, "batch": 16384,
                        "learning_rate": 0.08, "averaging": 0.99}  # fmt: skip
LARGE: dict[str, Any] = {**MAIN, "states_per_class": 128, "state_dropout": 0.75}
SMALL: dict[str, Any] = {**MAIN, "states_per_class": 32, "learning_rate": 0.07}
QUICK = 14  # epochs
PARTS = ("classes", "step", "scoring", "quick", "fit", "large", "ablations", "sizes", "features")


class Texts:
    """Train, valid, test."""

    def __init__(self) -> None:
        files = datasets.locate("ptb")
        self.train = Corpus.from_text(files["train"])
        words = self.train.vocabulary
        self.valid, self.test = (
            Corpus.from_text(files[k], vocabulary=words) for k in ("dev", "test")
        )


def fitted(
    texts: Texts, what: str, settings: dict[str, Any], folder: Path | None = None
) -> tuple[VLHMM, dict[str, Any]]:
    """A model and its row."""
    model = VLHMM(**settings)
    if folder is not None:
        model.checkpointed(folder)
    start = time.process_time()
    model.fit(texts.train, texts.valid)
    row = {
        "what": what,
        "states": model.config.n_states,
        "epochs": len(model.fitted_on["training"]["epoch_losses"]),
        "CPU seconds": time.process_time() - start,
        "train": model.perplexity(texts.train).value,
        "valid": model.perplexity(texts.valid).value,
        "test": model.perplexity(texts.test).value,
        "settings": model.config.to_dict(),
    }
    return model, row


def fit(
    texts: Texts, name: str, settings: dict[str, Any], folder: Path | None
) -> Iterator[dict[str, Any]]:
    """A model alone and mixed with n-grams."""
    model, row = fitted(texts, name, settings, folder)
    yield row
    ngrams = KneserNey(order=5).fit(texts.train)
    mixture = Mixture({"vlhmm": model, "kneser_ney": ngrams}).fit_weights(texts.valid)
    for what, other in (("KneserNey(5)", ngrams), (f"{name} + KneserNey(5)", mixture)):
        found = {k: other.perplexity(getattr(texts, k)).value for k in ("valid", "test")}
        weights = {"weights": mixture.weights} if other is mixture else {}
        yield {"what": what, **found, **weights}


def scoring(texts: Texts, repeats: int) -> Iterator[dict[str, Any]]:
    """At 2^14 states, in the classes of the paper and in finer ones; an untrained model scores as fast."""
    for n_classes in (128, 256):
        settings = {"n_classes": n_classes, "states_per_class": (1 << 14) // n_classes}
        model = VLHMM(**settings, epochs=0).fit(texts.train)
        yield from speed.scoring_rates(model, texts.test, repeats)


def ablations(texts: Texts, epochs: int) -> Iterator[dict[str, Any]]:
    """Without each of the techniques."""
    for what, change in (
        ("VLHMM, small", {}),
        ("- state dropout", {"state_dropout": 0.0}),
        ("- neural parameterisation", {"neural": False}),
        ("one level of transitions", {"transitions": "flat"}),
        ("predictive classes", {"classes": "predictive"}),
    ):
        yield fitted(texts, what, {**SMALL, **change, "epochs": epochs})[1]


def sizes(texts: Texts, epochs: int) -> Iterator[dict[str, Any]]:
    """By number of states, the classes the same."""
    for k in (4, 16, 32, 64, 128):
        yield fitted(
            texts, f"{k} states a class", {**MAIN, "states_per_class": k, "epochs": epochs}
        )[1]


def features(texts: Texts, epochs: int) -> Iterator[dict[str, Any]]:
    """The generalised softmax by the size of its feature map, beside the softmax; no classes, no dropout."""
    dense = {
        "n_classes": 1,
        "states_per_class": 512,
        "state_dropout": 0.0,
        "batch": 4096,
        "epochs": epochs,
    }
    for f in (64, 128, 256):
        yield fitted(texts, f"{f} features", {**dense, "transitions": "features", "features": f})[1]
    yield fitted(texts, "softmax", {**dense, "transitions": "flat"})[1]


def rows_of(part: str, texts: Texts, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of a part of the benchmark."""
    if part == "classes":
        return speed.class_seconds(texts.train)
    if part == "step":
        sizes_of = ((4096, 512), (4096, 4096), (8192, 512))
        found = (speed.step_seconds(texts.train, *size, options.repeats) for size in sizes_of)
        return (row for rows in found for row in rows)
    if part == "scoring":
        return scoring(texts, options.repeats)
    if part == "quick":
        name = f"VLHMM, {QUICK} epochs"
        return fit(texts, name, {**SMALL, "epochs": QUICK}, None)
    if part == "fit":
        return fit(texts, "VLHMM", {**MAIN, "epochs": options.epochs}, options.checkpoints)
    if part == "large":
        name = f"VLHMM, 2^15 states, {options.epochs} epochs"
        return fit(texts, name, {**LARGE, "epochs": options.epochs}, options.checkpoints)
    study = {"ablations": ablations, "sizes": sizes, "features": features}[part]
    return study(texts, options.epochs)


def main() -> None:
    """Measures and saves each row as it is found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS[:5])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--checkpoints", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts = Texts()
    for part in options.only:
        rows = []
        for row in rows_of(part, texts, options):
            rows.append({"part": part, **row})
            reporting.save("lm-hidden-markov", PROTOCOL, rows, keep="what")


if __name__ == "__main__":
    main()
