"""Compare fits on a CUDA device with fits on the CPU: python -m benchmarks.gpu.agreement [--only PMF].

Each model that has a device is fitted on the CPU and twice on the device with one seed, to Penn Treebank or
MovieLens-100K. What the fits reach is compared, and whether both fits on the device have the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import spacy
from spacy.tokens import Doc

from benchmarks import reporting
from benchmarks.language_models.contexts import Texts
from benchmarks.reporting import Row, Table, main
from tacenda import Corpus, datasets
from tacenda.ratings import read_ratings, split
from tacenda_embeddings import LDS, VarEmbed
from tacenda_lm import HLBL, LBL, VLHMM
from tacenda_surprise import (
    PMF,
    RBM,
    BayesianPMF,
    ConditionalBayesianPMF,
    ConditionalPMF,
    ConditionalRBM,
)

PROTOCOL = {
    "text": "Penn Treebank, its first 10,000 sentences of training; perplexities of its whole validation text",
    "ratings": "MovieLens-100K, a random tenth held out; RMSE of predictions that stay within the scale",
    "difference": "of the two values, relative to that of the CPU; of vectors the largest error by a vector's length",
    "seconds": "of a fit by the clock; of the second of two fits on the device",
    "repeats": "whether both fits on the device have the same bits",
    "seed": 0,
}
SHORT: dict[str, Any] = {"epochs": 3, "seed": 0}
OF_TEXT: dict[str, Any] = {
    "HLBL, width 100": lambda on: HLBL(width=100, tree="random", copies=1, **SHORT, device=on),
    "LBL, width 100": lambda on: LBL(width=100, batch_words=4096, **SHORT, device=on),
    "VLHMM, 128 x 32 states": lambda on: VLHMM(n_classes=128, states_per_class=32, **SHORT, device=on),
    "VLHMM, 128 x 32 states, flat": lambda on: VLHMM(
        n_classes=128, states_per_class=32, transitions="flat", **SHORT, device=on
    ),
    "VarEmbed, width 128": lambda on: VarEmbed(epochs=1, seed=0, device=on),
}  # fmt: skip
OF_RATINGS: dict[str, Any] = {
    "PMF": lambda on: PMF(random_state=0, device=on),
    "PMF, alternating least squares": lambda on: PMF(solver="als", random_state=0, device=on),
    "ConditionalPMF": lambda on: ConditionalPMF(random_state=0, device=on),
    "BayesianPMF": lambda on: BayesianPMF(n_samples=40, random_state=0, device=on),
    "ConditionalBayesianPMF": lambda on: ConditionalBayesianPMF(n_samples=40, random_state=0, device=on),
    "RBM": lambda on: RBM(random_state=0, device=on),
    "ConditionalRBM": lambda on: ConditionalRBM(random_state=0, device=on),
}  # fmt: skip


def compare(
    what: str,
    new: Callable[[str], Any],
    fit: Callable[[Any], Any],
    value: Callable[[Any], float],
    measure: str,
    device: str,
) -> Row:
    """Fit a model here and there, and compare what ``value`` finds of it."""
    here, seconds = clock(fit, new("cpu"))
    first, _ = clock(fit, new(device))
    there, of_device = clock(fit, new(device))
    values = value(here), value(there)
    pairs = ((first.arrays()[name], array) for name, array in there.arrays().items())
    return {
        "what": what,
        "measure": measure,
        "CPU": values[0],
        "device": values[1],
        "difference": abs(values[1] / values[0] - 1),
        "repeats": all(np.array_equal(*pair) for pair in pairs),
        "CPU seconds": seconds,
        "device seconds": of_device,
    }


def to_numpy(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else array


def clock(fit: Callable[[Any], Any], model: Any) -> tuple[Any, float]:
    begin = time.perf_counter()
    return fit(model), time.perf_counter() - begin


def of_dynamics(texts: Texts, train: Corpus, device: str) -> Iterator[Row]:
    """Compare a fit of an LDS, and the vectors of one model made here and there."""
    yield compare(
        "LDS, 100 states", lambda on: LDS(n_states=100, device=on), lambda model: model.fit(train),
        lambda model: model.likelihood_gain, "nats per token over no dynamics", device,
    )  # fmt: skip
    here, there = (LDS(n_states=100, device=on) for on in ("cpu", device))
    there.learned, there._vocabulary = here.fit(train).learned, here.vocabulary
    ids = list(texts.valid.sentences())
    there.transform_ids(ids)
    (ours, seconds), (theirs, of_device) = (
        clock(lambda model: np.concatenate(model.transform_ids(ids)), each)
        for each in (here, there)
    )
    yield vectors("LDS, vectors of one model", (ours, theirs), (seconds, of_device))


def of_pipeline(texts: Texts, train: Corpus, device: str) -> Iterator[Row]:
    """Compare the time of ``lds_embeddings`` in spaCy, vectors left where they were made."""
    lines = texts.test_lines
    lds, seconds, made = LDS(n_states=100, device=device).fit(train), [], []
    for prefer in (spacy.require_cpu, spacy.require_gpu if device != "cpu" else spacy.require_cpu):
        prefer()
        nlp = spacy.blank("en")
        nlp.add_pipe("lds_embeddings").initialize(artifact=lds)
        docs = [Doc(nlp.vocab, line.split()) for line in lines]
        for _ in range(2):  # the second is timed
            found, took = clock(lambda nlp: list(nlp.pipe(doc.copy() for doc in docs)), nlp)  # noqa: B023
        seconds.append(took)
        made.append(np.concatenate([to_numpy(doc.tensor) for doc in found]))
    spacy.require_cpu()
    yield vectors("lds_embeddings in spaCy, test text", made, seconds)


def vectors(what: str, made: Sequence[np.ndarray], seconds: Sequence[float]) -> Row:
    """Compare the vectors (tokens, width) that the CPU and the device made, in this order, and their times."""
    here, there = made
    errors = np.linalg.norm(there - here, axis=1) / np.linalg.norm(here, axis=1)
    return {
        "what": what,
        "measure": "error of a vector",
        "difference": float(errors.max()),
        "CPU seconds": seconds[0],
        "device seconds": seconds[1],
    }


def rows(options: Any) -> Iterator[Row]:
    """Compare all models."""
    texts, device = Texts(), options.device
    train = texts.train.head(10_000)
    wanted: dict[str, Callable[[], Iterator[Row]]] = {
        "LDS": lambda: of_dynamics(texts, train, device),
        "spaCy": lambda: of_pipeline(texts, train, device),
    }
    for name, new in OF_TEXT.items():
        wanted[name] = lambda name=name, new=new: iter([  # type: ignore[misc]
            compare(name, new, lambda model: model.fit(train, valid=texts.valid),
                     lambda model: model.figures[0]["value"], "validation text", device)
        ])  # fmt: skip
    ratings, held_out = split(read_ratings(datasets.locate("ml-100k")["ratings"]), 0.1, seed=0)

    def rmse(model: Any) -> float:
        scores = np.clip(
            model.score_pairs(held_out.user_ids, held_out.item_ids), *model.catalogue.scale
        )
        return float(np.sqrt(np.mean((scores - held_out.values) ** 2)))

    for name, new in OF_RATINGS.items():
        wanted[name] = lambda name=name, new=new: iter([  # type: ignore[misc]
            compare(name, new, lambda model: model.fit(ratings), rmse, "RMSE", device)
        ])  # fmt: skip
    for name in options.chosen(wanted):
        try:
            yield from wanted[name]()
        except Exception as error:  # a model that fails must not cost the others their minutes
            options.leave_out(name, f"{type(error).__name__}: {error}")


def protocol(options: Any) -> dict[str, Any]:
    return {**PROTOCOL, **reporting.device_facts(options.device)}


if __name__ == "__main__":
    main(__doc__, Table("gpu-agreement", protocol, rows, key="what"), device="cuda")
