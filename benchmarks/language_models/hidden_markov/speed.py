"""Times of a training step, of scoring and of the classes, and the reference that a step is measured against.

    python -m benchmarks.language_models.hidden_markov.speed --device cuda [--repeats 5]

A training step at 2^15 states on a GPU, ours and the log-space reference there; all else is measured by the package.
The reference is the log-space formulation of the paper's own implementation, in plain torch: transitions are one
softmax over all active states, stored whole; emissions one softmax over all words with a mask for those of other
classes; potentials are gathered for every token, the forward and backward recurrences are log-sum-exps over k x k, and
the loss is the sum of marginals times potentials, through which torch differentiates the parameterization. Shorter
sentences are padded to the longest. Its two large products may be NumPy's, as ours are: torch has another library for
them, which is slower on some processors.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, get_args

import numpy as np
import torch

from benchmarks import reporting
from benchmarks.reporting import Row, Table, interleaved, main
from tacenda import Corpus, datasets
from tacenda.errors import TacendaError
from tacenda_lm import VLHMM
from tacenda_lm.hidden_markov.settings import Method, VLHMMSettings
from tacenda_lm.hidden_markov.tables import BlockStore, Lexicon, Observed, text_of
from tacenda_lm.hidden_markov.training import Network, Trainer, draw_network
from tacenda_lm.hidden_markov.word_classes import word_classes


class _NumpyProduct(torch.autograd.Function):
    """rows @ columns.T and its gradients by NumPy."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(rows, columns)
        return torch.from_numpy(rows.detach().numpy() @ columns.detach().numpy().T)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows, columns = (each.detach().numpy() for each in ctx.saved_tensors)
        above = gradient.numpy()
        return torch.from_numpy(above @ columns), torch.from_numpy(above.T @ rows)


Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
PRODUCTS: dict[str, Product] = {
    "torch": lambda rows, columns: rows @ columns.T,
    "NumPy": _NumpyProduct.apply,
}


def reference_step(
    network: Network,
    kept: torch.Tensor,
    sentences: list[list[int]],
    classes: torch.Tensor,
    order: torch.Tensor,
    optimizer: torch.optim.Optimizer,
    product: Product,
) -> float:
    """One step on a batch of sentences; the mean log-probability of a word before it."""
    optimizer.zero_grad(set_to_none=True)
    out = network(kept)
    M, k, h = out.left.shape
    Z = M * k
    scores = product(out.left.reshape(Z, h), out.reached.reshape(Z, h)) + out.bias.ravel()
    transitions = scores.log_softmax(1)
    states_of = torch.arange(M, device=scores.device).repeat_interleave(k)
    words = product(out.emitting.reshape(Z, h), out.words) + out.word_bias
    masked = words.masked_fill(states_of[:, None] != classes[order], float("-inf"))
    emissions = masked.log_softmax(1)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    potentials, alive = _potentials(
        transitions.view(M, k, M, k), emissions.view(M, k, -1), out.log_starts, sentences, classes, place
    )  # fmt: skip
    with torch.no_grad():
        marginals, total = _marginals(potentials, alive)
    n = sum(map(len, sentences))
    loss = -sum((m * p).sum() for m, p in zip(marginals, potentials, strict=True)) / n
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
    optimizer.step()
    return total / n


def _potentials(
    transitions: torch.Tensor,
    emissions: torch.Tensor,
    log_starts: torch.Tensor,
    sentences: list[list[int]],
    classes: torch.Tensor,
    place: torch.Tensor,
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Log-potentials: of the first token (batch, k), then (batch, k, k) for each later one, with who is alive."""
    T = max(map(len, sentences))
    words = torch.zeros(len(sentences), T, dtype=torch.long)
    for row, sentence in enumerate(sentences):
        words[row, : len(sentence)] = torch.tensor(sentence)
    words = words.to(classes.device)
    lengths = torch.tensor([len(sentence) for sentence in sentences], device=classes.device)
    group = classes[words]
    emitted = emissions[group, :, place[words]]  # (batch, T, k)
    found = [log_starts[group[:, 0]] + emitted[:, 0]]
    for t in range(1, T):
        moved = transitions[group[:, t - 1], :, group[:, t]]
        found.append(torch.where((lengths > t)[:, None, None], moved + emitted[:, t, None, :], 0.0))
    return found, [lengths > t for t in range(T)]


def _marginals(potentials: list[torch.Tensor], alive: list[torch.Tensor]) -> Any:
    """Posterior probabilities of every potential by two log-space recurrences, and log p of the batch."""
    alpha = [potentials[0]]
    for potential, here in zip(potentials[1:], alive[1:], strict=True):
        after = torch.logsumexp(alpha[-1][:, :, None] + potential, 1)
        alpha.append(torch.where(here[:, None], after, alpha[-1]))
    total = torch.logsumexp(alpha[-1], 1)
    beta = torch.zeros_like(alpha[-1])
    found = []
    for t in range(len(potentials) - 1, 0, -1):
        joint = alpha[t - 1][:, :, None] + potentials[t] + beta[:, None, :]
        here = alive[t][:, None, None]
        found.append(torch.where(here, (joint - total[:, None, None]).exp(), 0.0))
        before = torch.logsumexp(potentials[t] + beta[:, None, :], 2)
        beta = torch.where(alive[t][:, None], before, beta)
    found.append((alpha[0] + beta - total[:, None]).exp())
    return list(itertools.chain(reversed(found))), float(total.sum())


_WIDTH, _CLASSES = 256, 128  # of the paper
PROTOCOL = {
    "repeats": reporting.TURNS,
    "step": f"parameterization with width {_WIDTH}, {_CLASSES} classes, half the states dropped, forward-backward, "
    "gradient, Adam; ours and the log-space reference on the same sentences, in one process and turn by turn, checked "
    "to give the same log-likelihood; the reference with torch's matrix products and with NumPy's, which ours are; "
    "times faster: over the faster of the two references, by the medians",
    "scoring": "score_corpus of the test text, ids given",
    "classes": "clustering the words of the training text, compiled code warm",
    "load": "processes that wanted a core in the last minute, when the row was done",
}


def class_seconds(train: Corpus, repeats: int) -> Iterator[Row]:
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
    for what, seconds in interleaved(works, repeats).items():
        yield {
            "what": what,
            "words": types,
            **reporting.timing(seconds, "CPU seconds"),
            "load": reporting.load(),
        }


def step_seconds(
    train: Corpus, active: int, tokens: int, repeats: int, device: str = "cpu"
) -> Iterator[Row]:
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
        kept = trainer.draw_states()
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
    seconds = interleaved({**references, **works}, repeats, _clock(device))
    unit = "CPU seconds" if device == "cpu" else "seconds"
    best = min(statistics.median(seconds[name]) for name in references)
    for name, found in seconds.items():
        row = {"what": f"step, {active:,} active states, {n_words:,} words, {name}"}
        row |= {**reporting.timing(found, unit), "load": reporting.load()}
        yield row | ({"times faster": best / row[unit]} if name in works else {})


def _clock(device: str) -> Callable[[], float]:
    """Seconds of the processor, or of the clock when a device has done its work."""
    if device == "cpu":
        return time.process_time

    def wait() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return wait


def _by_frequency(counts: np.ndarray) -> np.ndarray:
    """Classes dealt out by frequency: the times of a step need no better ones."""
    classes = np.empty(len(counts), np.int32)
    classes[np.argsort(-counts, kind="stable")] = np.arange(len(counts)) % _CLASSES
    return classes


def scoring_rates(model: VLHMM, text: Corpus, repeats: int) -> Iterator[Row]:
    """Tokens scored a second, blocks of class pairs made anew and kept from before."""
    ids, offsets = text_of(text)
    given = model.tables.store._given

    def cold() -> None:
        model.tables.store = BlockStore(*given)
        model.score_corpus(ids, offsets)

    works: dict[str, Callable[[], Any]] = {
        "nothing kept": cold,
        "blocks kept": lambda: model.score_corpus(ids, offsets),
    }
    n_states = model.settings.n_classes * model.settings.states_per_class
    what = f"scoring, {n_states:,} states ({model.settings.n_classes} classes)"
    for name, seconds in interleaved(works, repeats).items():
        found = reporting.rate(len(ids), seconds, "tokens per CPU second")
        yield {"what": f"{what}, {name}", **found, "load": reporting.load()}


def device_protocol(options: Any) -> dict[str, Any]:
    return {
        "step": f"parameterization with width {_WIDTH}, {_CLASSES} classes, half the states dropped, forward-backward, "
        "gradient, Adam, float32 without TF32; medians, turn by turn, synchronised before and after; both "
        "formulations on the same sentences, checked to give the same log-likelihood",
        **reporting.device_facts(options.device),
    }


def on_device(options: Any) -> Iterator[Row]:
    """Measure a step on a device."""
    try:
        VLHMM(device=options.device)
        train = Corpus.from_text(datasets.locate("ptb")["train"])
    except TacendaError as error:
        raise SystemExit(f"error: {error}") from None
    if options.device == "cpu":
        raise SystemExit(
            "error: on the CPU steps are measured by the package: lm-hidden-markov-speed"
        )
    for tokens in (512, 4096):
        yield from step_seconds(train, 1 << 14, tokens, options.repeats, options.device)


if __name__ == "__main__":
    main(
        __doc__,
        Table("lm-hidden-markov-device", device_protocol, on_device, key="what"),
        device="cuda",
        repeats=5,
    )
