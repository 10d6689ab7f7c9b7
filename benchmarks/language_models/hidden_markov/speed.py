"""Times of a training step, of scoring and of the classes.

    python -m benchmarks.language_models.hidden_markov.speed --device cuda [--repeats 5]

A training step at 2^15 states on a GPU, ours and the log-space reference there; all else is measured by the package.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, get_args

import numpy as np
import torch

from benchmarks import reporting
from benchmarks.language_models import timing
from benchmarks.language_models.hidden_markov.reference import PRODUCTS, reference_step
from tacenda import Corpus, datasets
from tacenda.errors import TacendaError
from tacenda_lm import VLHMM
from tacenda_lm.hidden_markov.settings import Method, VLHMMSettings
from tacenda_lm.hidden_markov.tables import Lexicon, Observed, text_of
from tacenda_lm.hidden_markov.training import Trainer, draw_network
from tacenda_lm.hidden_markov.word_classes import word_classes

__all__ = ["PROTOCOL", "class_seconds", "scoring_rates", "step_seconds"]

_WIDTH, _CLASSES = 256, 128  # of the paper
PROTOCOL = {
    "repeats": timing.PROTOCOL,
    "step": f"parameterisation with width {_WIDTH}, {_CLASSES} classes, half the states dropped, forward-backward, "
    "gradient, Adam; ours and the log-space reference on the same sentences, in one process and turn by turn, checked "
    "to give the same log-likelihood; the reference with torch's matrix products and with NumPy's, which ours are; "
    "times faster: over the faster of the two references, by the medians",
    "scoring": "score_corpus of the test text, ids given",
    "classes": "clustering the words of the training text, compiled code warm",
    "load": "processes that wanted a core in the last minute, when the row was done",
}


def class_seconds(train: Corpus, repeats: int) -> Iterator[dict[str, Any]]:
    """Time of clustering the words."""
    ids, _ = text_of(train)
    boundary, types = train.vocabulary.boundary_id, len(train.vocabulary)
    stream = np.concatenate([np.array([boundary], np.int32), ids])
    works: dict[str, Callable[[], Any]] = {}
    for method in get_args(Method):
        word_classes(stream[:1000], types, 8, boundary=boundary, method=method)
        for n_classes in (128, 256):
            works[f"{n_classes} classes by {method}"] = lambda n=n_classes, how=method: (  # type: ignore[misc]
                word_classes(stream, types, n, boundary=boundary, method=how)
            )
    for what, seconds in timing.interleaved(works, repeats).items():
        yield {"what": what, "words": types, **_spread(seconds, "CPU seconds")}


def step_seconds(
    train: Corpus, active: int, tokens: int, repeats: int, device: str = "cpu"
) -> Iterator[dict[str, Any]]:
    """A step at ``active`` states of twice as many, ours and the log-space reference, on the same sentences."""
    ids, offsets = text_of(train)
    counts = train.type_counts.copy()
    lexicon = Lexicon.of(_by_frequency(counts), _CLASSES)
    batch = np.arange(int(np.searchsorted(offsets, tokens)))
    n_words = int(offsets[len(batch)])
    shared: dict[str, Any] = {
        "n_classes": _CLASSES,
        "states_per_class": 2 * active // _CLASSES,
        "width": _WIDTH,
        "batch_words": tokens,
        "device": device,
    }

    def ours(kind: Any) -> Callable[[], Any]:
        settings = VLHMMSettings(**shared, transitions=kind)
        network = draw_network(settings, lexicon, ids, offsets)
        trainer = Trainer(settings, network, lexicon, ids, offsets, None)
        return lambda: trainer.step(batch, 1e-3)

    sentences = [ids[offsets[i] : offsets[i + 1]].tolist() for i in batch]
    classes = torch.from_numpy(lexicon.classes.astype(np.int64)).to(device)
    order = torch.from_numpy(lexicon.order).to(device)

    def theirs(product: Any) -> Callable[[], Any]:
        settings = VLHMMSettings(**shared, transitions="flat")
        network = draw_network(settings, lexicon, ids, offsets)
        trainer = Trainer(settings, network, lexicon, ids, offsets, None)
        kept = trainer.kept_states()
        observed = Observed.of(ids[:n_words], offsets[: len(batch) + 1], lexicon)
        own = network.log_likelihood(network(kept), observed, lexicon, 1).item() / n_words
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)

        def step() -> float:
            return reference_step(network, kept, sentences, classes, order, optimizer, product)

        found = step()  # from the same parameters
        if abs(found - own) > 1e-3:
            raise SystemExit(f"the two formulations disagree: {own} and {found} nats a word")
        return step

    products = PRODUCTS if device == "cpu" else {"torch": PRODUCTS["torch"]}
    works = {f"ours, {kind}": ours(kind) for kind in ("two_level", "flat")}
    references = {
        f"log-space reference, {name}'s products": theirs(product)
        for name, product in products.items()
    }
    seconds = timing.interleaved({**references, **works}, repeats, _clock(device))
    unit = "CPU seconds" if device == "cpu" else "seconds"
    best = min(statistics.median(seconds[name]) for name in references)
    for name, found in seconds.items():
        row = {"what": f"step, {active:,} active states, {n_words:,} words, {name}"}
        row |= _spread(found, unit)
        yield row | ({"times faster": best / row[unit]} if name in works else {})


def _clock(device: str) -> Callable[[], float]:
    """Seconds of the processor, or of the clock when a device has done its work."""
    if device == "cpu":
        return time.process_time

    def wait() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return wait


def _spread(seconds: list[float], unit: str) -> dict[str, Any]:
    return {
        unit: statistics.median(seconds),
        "least": min(seconds),
        "most": max(seconds),
        "runs": len(seconds),
        "load": round(os.getloadavg()[0], 2),
    }


def _by_frequency(counts: np.ndarray) -> np.ndarray:
    """Classes dealt out by frequency: the times of a step need no better ones."""
    classes = np.empty(len(counts), np.int32)
    classes[np.argsort(-counts, kind="stable")] = np.arange(len(counts)) % _CLASSES
    return classes


def scoring_rates(model: VLHMM, text: Corpus, repeats: int) -> Iterator[dict[str, Any]]:
    """Tokens scored a second, blocks of class pairs made anew and kept from before."""
    ids, offsets = text_of(text)
    store = model.tables.store

    def cold() -> None:
        store._empty()
        model.score_corpus(ids, offsets)

    works: dict[str, Callable[[], Any]] = {
        "nothing kept": cold,
        "blocks kept": lambda: model.score_corpus(ids, offsets),
    }
    what = f"scoring, {model.settings.n_states:,} states ({model.settings.n_classes} classes)"
    for name, seconds in timing.interleaved(works, repeats).items():
        found = timing.rate(len(ids), seconds, "tokens per CPU second")
        yield {"what": f"{what}, {name}", **found, "load": round(os.getloadavg()[0], 2)}


def main() -> None:
    """Measures a step on a device, and saves each row as it is found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="cuda, or cuda:1 (default: cuda)")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    try:
        VLHMM(device=options.device)
        train = Corpus.from_text(datasets.locate("ptb")["train"])
    except TacendaError as error:
        raise SystemExit(f"error: {error}") from None
    if options.device == "cpu":
        raise SystemExit("error: on the CPU steps are measured by the package, with --only step")
    protocol = {
        "step": f"parameterisation with width {_WIDTH}, {_CLASSES} classes, half the states dropped, forward-backward, "
        "gradient, Adam, float32 without TF32; medians, turn by turn, synchronised before and after; both "
        "formulations on the same sentences, checked to give the same log-likelihood",
        "device": torch.cuda.get_device_name(options.device),
        "torch": f"{torch.__version__}, CUDA {torch.version.cuda}",
    }
    rows: list[dict[str, Any]] = []
    for tokens in (512, 4096):
        for row in step_seconds(train, 1 << 14, tokens, options.repeats, options.device):
            rows.append(row)
            reporting.save("lm-hidden-markov-device", protocol, rows, seeds=(0,), keep="what")


if __name__ == "__main__":
    main()
