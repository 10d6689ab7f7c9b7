"""Times of a training step, of scoring and of the classes.

    python -m benchmarks.language_models.hidden_markov.speed --device cuda [--repeats 5]

A training step at 2^15 states on a GPU, ours and the log-space reference there; all else is measured by the package.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import torch

from benchmarks import reporting
from benchmarks.language_models.hidden_markov.reference import reference_step
from tacenda import Corpus, datasets
from tacenda.errors import TacendaError
from tacenda_lm import VLHMM
from tacenda_lm.hidden_markov.classed_text import Lexicon, Observed, text_of
from tacenda_lm.hidden_markov.settings import Method, VLHMMSettings
from tacenda_lm.hidden_markov.vlhmm_training import Trainer, drawn
from tacenda_lm.hidden_markov.word_classes import word_classes

__all__ = ["class_seconds", "scoring_rates", "step_seconds"]

_WIDTH, _CLASSES = 256, 128  # of the paper


def class_seconds(train: Corpus) -> Iterator[dict[str, Any]]:
    """Time of clustering the words, compiled code warm."""
    ids, _ = text_of(train)
    boundary, types = train.vocabulary.boundary_id, len(train.vocabulary)
    stream = np.concatenate([np.array([boundary], np.int32), ids])
    for method in get_args(Method):
        word_classes(stream[:1000], types, 8, boundary=boundary, method=method)
        for n_classes in (128, 256):
            start = time.process_time()
            word_classes(stream, types, n_classes, boundary=boundary, method=method)
            seconds = time.process_time() - start
            what = f"{n_classes} classes by {method}"
            yield {"what": what, "CPU seconds": seconds, "words": types}


def step_seconds(
    train: Corpus, active: int, tokens: int, repeats: int, device: str = "cpu"
) -> Iterator[dict[str, Any]]:
    """A step at ``active`` states of twice as many, ours and the log-space reference, on the same sentences."""
    ids, offsets = text_of(train)
    counts = train.type_counts.copy()
    lexicon = Lexicon.of(_by_frequency(counts), _CLASSES)
    batch = np.arange(int(np.searchsorted(offsets, tokens)))
    sentences = [ids[offsets[i] : offsets[i + 1]].tolist() for i in batch]
    k = 2 * active // _CLASSES
    shared: dict[str, Any] = {
        "n_classes": _CLASSES,
        "states_per_class": k,
        "width": _WIDTH,
        "batch_words": tokens,
        "device": device,
    }
    seconds: dict[str, float] = {}
    for kind in ("two_level", "flat"):
        settings = VLHMMSettings(**shared, transitions=kind)
        trainer = Trainer(
            settings, drawn(settings, lexicon, ids, offsets), lexicon, ids, offsets, None
        )
        seconds[f"ours, {kind}"] = _best(
            lambda t=trainer: t.step(batch, 1e-3), repeats, device=device
        )
    settings = VLHMMSettings(**shared, transitions="flat")
    network = drawn(settings, lexicon, ids, offsets)
    trainer = Trainer(settings, network, lexicon, ids, offsets, None)
    kept = trainer.kept_states()
    classes = torch.from_numpy(lexicon.classes.astype(np.int64)).to(device)
    order = torch.from_numpy(lexicon.order).to(device)
    outputs = network(kept)
    observed = Observed.of(ids[: offsets[len(batch)]], offsets[: len(batch) + 1], lexicon)
    ours = network.log_likelihood(outputs, observed, lexicon, 1).item() / int(offsets[len(batch)])
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    arguments = (network, kept, sentences, classes, order, optimizer)
    theirs = reference_step(*arguments)
    if abs(theirs - ours) > 1e-3:
        raise SystemExit(f"the two formulations disagree: {ours} and {theirs} nats a word")
    reference = _best(lambda: reference_step(*arguments), max(1, repeats // 3), True, device)
    unit = "CPU seconds" if device == "cpu" else "seconds"
    what = f"step, {active:,} active states, {int(offsets[len(batch)]):,} words"
    yield {"what": f"{what}, log-space reference", unit: reference}
    for name, own in seconds.items():
        yield {"what": f"{what}, {name}", unit: own, "times faster": reference / own}


def _by_frequency(counts: np.ndarray) -> np.ndarray:
    """Classes dealt out by frequency: the times of a step need no better ones."""
    classes = np.empty(len(counts), np.int32)
    classes[np.argsort(-counts, kind="stable")] = np.arange(len(counts)) % _CLASSES
    return classes


def scoring_rates(model: VLHMM, text: Corpus, repeats: int) -> Iterator[dict[str, Any]]:
    """Tokens scored a second, blocks of class pairs made anew and kept from before."""
    ids, offsets = text_of(text)
    store = model.tables.store
    model.score_corpus(ids[:1000], np.array([0, 1000]))
    what = f"scoring, {model.settings.n_states:,} states ({model.settings.n_classes} classes)"

    def cold() -> None:
        store._empty()
        model.score_corpus(ids, offsets)

    for name, work in (
        ("nothing kept", cold),
        ("blocks kept", lambda: model.score_corpus(ids, offsets)),
    ):
        yield {"what": f"{what}, {name}", "tokens per CPU second": len(ids) / _best(work, repeats)}


def _best(work: Any, repeats: int, warm: bool = False, device: str = "cpu") -> float:
    """Seconds of the processor, or of the clock until a device has done its work."""
    clock = time.process_time if device == "cpu" else time.perf_counter

    def wait() -> float:
        if device != "cpu":
            torch.cuda.synchronize(device)
        return clock()

    if not warm:
        work()
    found = []
    for _ in range(repeats):
        start = wait()
        work()
        found.append(wait() - start)
    return min(found)


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
        "gradient, Adam, float32 without TF32; best of the repeats, synchronised before and after; both "
        "formulations on the same sentences, checked to give the same log-likelihood",
        "device": torch.cuda.get_device_name(options.device),
        "torch": f"{torch.__version__}, CUDA {torch.version.cuda}",
    }
    rows: list[dict[str, Any]] = []
    for tokens in (512, 4096):
        for row in step_seconds(train, 1 << 14, tokens, options.repeats, options.device):
            rows.append(row)
            reporting.save("lm-hidden-markov-device", protocol, rows, keep="what")


if __name__ == "__main__":
    main()
