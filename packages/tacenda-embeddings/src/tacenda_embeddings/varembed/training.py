"""Training: truncated backpropagation through an LSTM language model over expected word embeddings.

Training climbs the lower bound (Bhatia, Guthrie and Eisenstein, EMNLP 2016, eqs 19 to 23)

    L = sum_t log P(x_t | x_{1:t-1}; E_q[b]) - KL(Q(b) || P(b))

The likelihood is taken at the expected embeddings (eqs 18 and 19), so L is an approximation of the bound,
not a bound itself, as soon as the network is not linear in them.

A step touches the vectors of the words, morphemes and outputs that its batch contains and no others, so its
cost does not depend on the size of the vocabulary, except with the exact softmax.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from tacenda import devices, fitting
from tacenda.corpus import Corpus
from tacenda.corpus.storage import forget_pages, lay_out
from tacenda.fitting import (
    Cosine,
    FitRun,
    FitSettings,
    History,
    StepResult,
    fingerprint_arrays,
    set_learning_rate,
)
from tacenda.fitting.trainer import pack
from tacenda_embeddings.varembed.initial_vectors import find_start, fit_morphemes
from tacenda_embeddings.varembed.morphemes import Inventory
from tacenda_embeddings.varembed.settings import VarEmbedSettings

Ids = npt.NDArray[np.int32]
Batch = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Inputs and targets, both (length, streams)."""

LSTM_RATE = 2e-3  # learning rate of the LSTM, for Adam
CLIP = 1.0  # largest norm of the LSTM's gradient per token

_EVALUATED = 512  # tokens whose exact softmax is computed at a time
_OUTPUTS = 0.05  # standard deviation of the initial output vectors
_LSTM = 0.08  # bound of the LSTM's uniform start (section 3.2)
_NOISE_POWER = 0.75  # of the word frequencies, for the words the sampled softmax draws
_ADAGRAD_START = 1e-6  # of the accumulators
_LEAST = 0.1  # of the learning rate, at the end
_REFIT = 0.1  # of the ridge, after training
_CHECK = 50  # steps between looks at the loss, so that a GPU is not waited for
_LESS = "fewer batch_streams or unrolled_tokens, a smaller vocabulary, or a smaller width"


# -- the whole fit -------------------------------------------------------------------------------------


def fit_word_vectors(
    settings: VarEmbedSettings,
    text: Corpus,
    valid: Corpus | None,
    vectors: npt.NDArray[np.float32] | None,
    run: FitRun,
) -> tuple[tuple[Any, ...], History, dict[str, Any]]:
    """Return the fields of `FittedWords`, the course of training and its figure."""
    advanced = settings.advanced
    types = len(text.vocabulary)
    device = devices.resolve(settings, ())  # refuses one that is not there, before any work
    stream = concatenate(text)
    counts = text.type_counts.copy()
    counts[text.vocabulary.boundary_id] += 1  # the one before them all
    inventory, *start, ridge = find_start(settings, text, counts, vectors)
    needed = bytes_needed(settings, types, len(inventory))
    devices.check_memory(needed, device, settings, _LESS)

    held_out = None if valid is None else concatenate(valid)
    rate = Cosine(
        settings.learning_rate,
        epochs=max(settings.epochs, 1),
        floor=_LEAST * settings.learning_rate,
    )
    loop = FitSettings(
        epochs=settings.epochs,
        learning_rate=rate,
        patience=None if held_out is None else settings.patience,
        check_losses_every=_CHECK,
        on_divergence="return",
    )
    options = settings.to_dict()
    del options["device"]
    del options["threads"]
    del options["advanced"]["refit_morphemes"]
    identity = {
        "settings": options,
        "start": fingerprint_arrays(start),
        "valid": None if held_out is None else fingerprint_arrays((held_out,)),
    }
    source = StreamBatches(stream, streams=advanced.batch_streams, length=advanced.unrolled_tokens)
    threads = torch.get_num_threads()
    # an LSTM draws from torch's own generator as it is made, which is restored afterwards
    own = torch.random.fork_rng(devices=[])
    with own, devices.out_of_memory(settings, _LESS), full_precision(device):
        try:
            torch.set_num_threads(settings.threads or threads)
            trainer = Trainer(
                settings, inventory, counts, start, held_out, device, source.n_streams
            )
            history = fitting.fit(trainer, source, loop, run, identity)
            learned = pack(trainer.learned)
            refit = advanced.refit_morphemes and settings.epochs > 0
            if refit:
                alike = np.ones(types)  # the bound counts every word once
                again = fit_morphemes(inventory, learned["table/words"], alike, _REFIT * ridge)
                trainer.tables["morphemes"].values.copy_(torch.from_numpy(again))
                learned["table/morphemes"] = again
            figure = _figure(trainer, history, refit)
        finally:
            torch.set_num_threads(threads)
    words, morphemes = (np.array(learned[f"table/{name}"]) for name in ("words", "morphemes"))
    return (inventory, words, morphemes, counts > 0), history, figure


def bytes_needed(settings: VarEmbedSettings, n_types: int, n_morphemes: int) -> int:
    """Estimate the bytes of the tables, and of what a step or an evaluation holds on top."""
    advanced = settings.advanced
    tokens, wide = advanced.batch_streams * advanced.unrolled_tokens, advanced.hidden + 1
    tables = (n_types + n_morphemes) * (settings.width + 1) + n_types * (wide + 1)
    network = 16 * advanced.hidden * (settings.width + wide + 1)  # gradients and moments included
    exact = advanced.softmax == "exact"
    scored = n_types if exact else advanced.negatives
    outputs = (n_types if exact else tokens + scored) * wide
    step = tokens * (6 * settings.width + 16 * advanced.hidden + 3 * scored) + 3 * outputs
    return 4 * (tables + network + max(step, 2 * _EVALUATED * n_types))


@contextmanager
def full_precision(device: str) -> Iterator[None]:
    """Let an LSTM on CUDA round the factors of its products only where torch's own switch allows it.

    Products of matrices keep float32 unless ``torch.set_float32_matmul_precision`` says otherwise; those within cuDNN
    do not.
    """
    if not device.startswith("cuda"):
        yield
        return
    rounded = torch.get_float32_matmul_precision() != "highest"
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=rounded):
        yield


def _figure(trainer: Trainer, history: History, refitted: bool) -> dict[str, Any]:
    """Return the bound as it was measured: on held-out text where there is some, else as training saw it."""
    softmax = trainer.settings.advanced.softmax
    value = history.epoch_losses[-1] if history.epoch_losses else None
    protocol = f"training text, mean of the last epoch, {softmax} softmax"
    if trainer.valid is not None:
        value = None if history.best is None else history.best.value
        value = trainer.evaluate() if refitted else value
        protocol = "held-out text, exact softmax"
    return {
        "measure": "negative lower bound, nats per token",
        "value": value,
        "protocol": protocol,
        "divergence per token": trainer.divergence() / trainer.n_tokens,
    }


# -- the text ------------------------------------------------------------------------------------------


def concatenate(corpus: Corpus) -> Ids:
    """Return all sentences in a row, int32, each followed by ``</s>``, with one ``</s>`` before them all.

    A large text is in a file and mapped from there.
    """
    boundary = np.array([corpus.vocabulary.boundary_id], np.int32)
    return lay_out(chain(corpus.stream(), [boundary]), np.int32)


class StreamBatches:
    """The text cut into streams of equal length, ``length`` tokens of each at a time.

    A batch is (inputs, targets), both int64 (length, streams), the targets one token later. The order is that
    of the text, so that the state of a recurrent network is carried from one batch to the next. A few tokens
    at the end of the text, fewer than there are streams, are left out.
    """

    def __init__(self, ids: Ids, *, streams: int, length: int) -> None:
        self.ids, self.length = ids, length
        self.n_streams = max(1, min(streams, (len(ids) - 1) // 2))
        self.n_steps = (len(ids) - 1) // self.n_streams
        self._fingerprint = fingerprint_arrays((ids,), "streams", streams, length)

    def n_batches(self, epoch: int) -> int:
        return -(-self.n_steps // self.length)

    def batches(self, epoch: int, skip: int = 0) -> Iterator[Batch]:
        """Yield the ids of each batch and those that follow them, both (length, streams), in the order of the text."""
        used = self.n_streams * self.n_steps
        before = self.ids[:used].reshape(self.n_streams, -1)
        after = self.ids[1 : used + 1].reshape(self.n_streams, -1)
        for index in range(skip, self.n_batches(epoch)):
            span = slice(index * self.length, (index + 1) * self.length)
            inputs, targets = (
                np.ascontiguousarray(side[:, span].T, dtype=np.int64) for side in (before, after)
            )
            yield inputs, targets
            forget_pages(self.ids)

    def fingerprint(self) -> str:
        return self._fingerprint


# -- the terms of the bound ----------------------------------------------------------------------------


def bernoulli_kl(logits: Tensor, prior: Tensor) -> Tensor:
    """Return KL(q || p) in nats (rows,) of Bernoulli vectors, from logits (rows, width) of q and of p.

    It is softplus(s) - softplus(g) + sigma(g) (g - s), the negative of eq 23 in the paper, which has the
    sign of the term in the bound and not that of a divergence.
    """
    return (softplus(prior) - softplus(logits) + logits.sigmoid() * (logits - prior)).sum(1)


def exact_loss(hidden: Tensor, targets: Tensor, outputs: Tensor, biases: Tensor) -> Tensor:
    """Return -sum log softmax(V h)[target] in nats (eq 7).

    Takes hidden (tokens, hidden), targets int64 (tokens,), outputs V (types, hidden), biases (types,).
    """
    scores = torch.addmm(biases, hidden, outputs.T)
    return (scores.logsumexp(1) - scores.gather(1, targets[:, None])[:, 0]).sum()


def sampled_loss(
    hidden: Tensor,
    own: tuple[Tensor, Tensor],
    noise: tuple[Tensor, Tensor],
    log_expected: tuple[Tensor, Tensor],
) -> Tensor:
    """Return the loss, in nats, of a softmax over the target and words of noise that a whole batch shares.

        -s_x + log(e^{s_x} / E_x + sum over the words j drawn of e^{s_j} / E_j)

    E_j is how often j is expected among the words drawn. The sum estimates the normalizer, and the gradient is
    that of the ranking objective of noise-contrastive estimation, whose optimum is that of the softmax however
    many words are drawn (Ma and Collins 2018, section 3). A word drawn that is the target stays in: taking it
    out would bias the scores of frequent words.

    Takes ``hidden`` (tokens, hidden), output vectors (tokens, hidden) and biases (tokens,) of the targets x as
    ``own``, the same of the words drawn as ``noise``, and log E of each target and of each word drawn.
    """
    right = (hidden * own[0]).sum(1) + own[1]
    wrong = torch.addmm(noise[1] - log_expected[1], hidden, noise[0].T)
    return (torch.logaddexp(right - log_expected[0], wrong.logsumexp(1)) - right).sum()


# -- the network ---------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """Rows of a table as a batch uses them."""

    ids: Tensor  # int64 (rows,), ascending, each once
    places: Tensor  # int64, of the shape that was asked for: which of ``ids`` is where
    values: Tensor  # (rows, width), a leaf that collects the gradient


def _expect(words: Rows) -> Tensor:
    """Return what the LSTM reads for each word of a batch: 2 E_q[b] - 1."""
    return (words.values.sigmoid() * 2 - 1)[words.places]


class RowTable:
    """A float32 table of vectors (all, width) of which a step touches a few rows.

    The rows are leaves of autograd, not the table. AdaGrad has one accumulator a row, ``sums`` (all, 1), as
    `tacenda.kernels.shared.adagrad` has, on whatever device the table is; rows that a batch does not contain
    never change.
    """

    def __init__(self, values: Tensor) -> None:
        self.values = values
        self.sums = torch.full((len(values), 1), _ADAGRAD_START, device=values.device)

    def rows(self, ids: Tensor) -> Rows:
        """Return the rows with these ids (any shape), as leaves."""
        different, places = torch.unique(ids, return_inverse=True)
        return Rows(different, places, self.values[different].requires_grad_())

    def step(self, rows: Rows, rate: float) -> None:
        """Step s += mean(g ** 2), w -= rate g / sqrt(s) in these rows, unless they have no gradient."""
        gradient = rows.values.grad
        if gradient is None:
            return
        sums = self.sums[rows.ids] + gradient.square().mean(1, keepdim=True)
        self.sums[rows.ids] = sums
        self.values[rows.ids] = self.values[rows.ids] - rate * gradient / sums.sqrt()


class Trainer(fitting.Trainer):
    """A model under training, as `tacenda.fitting` takes it.

    ``counts`` int64 (types,) are those of the training
    stream, ``start`` the initial vectors of words (types, width) and of morphemes (morphemes, width), ``valid`` the
    held-out stream or None; ``n_streams`` of the text are read in parallel, by default those of the settings. All
    that is drawn is drawn on the CPU.
    """

    def __init__(
        self,
        settings: VarEmbedSettings,
        inventory: Inventory,
        counts: npt.NDArray[np.int64],
        start: Sequence[npt.NDArray[np.float32]],
        valid: Ids | None = None,
        device: str = "cpu",
        n_streams: int | None = None,
    ) -> None:
        hidden = settings.advanced.hidden
        self.settings, self.valid = settings, valid
        self.device = torch.device(device)
        self.n_tokens = int(counts.sum())
        self._generator = torch.Generator().manual_seed(settings.seed)
        biases = np.log((counts + 1.0) / (counts + 1.0).sum()).astype(np.float32)
        drawn = torch.randn(len(counts), hidden, generator=self._generator) * _OUTPUTS
        words, morphemes = (torch.from_numpy(each.copy()) for each in start)
        outputs = torch.cat([drawn, torch.from_numpy(biases)[:, None]], 1)  # the bias comes last
        self.tables = {
            name: RowTable(values.to(self.device))
            for name, values in (("words", words), ("morphemes", morphemes), ("outputs", outputs))
        }
        self.lstm = nn.LSTM(settings.width, hidden)
        for parameter in self.lstm.parameters():
            nn.init.uniform_(parameter, -_LSTM, _LSTM, generator=self._generator)
        self.lstm.to(self.device)
        self.optimizer = torch.optim.Adam(self.lstm.parameters(), lr=LSTM_RATE)
        self._rate_ratio = LSTM_RATE / max(settings.learning_rate, 1e-30)
        self._offsets = torch.from_numpy(inventory.offsets).to(self.device)
        self._pieces = torch.from_numpy(inventory.ids).to(self.device)
        # what one occurrence of each word weighs in the divergence, and the words of noise
        advanced, weight = settings.advanced, 1.0 / np.maximum(counts, 1)
        if advanced.kl == "tokens":
            weight = np.full(len(counts), 1.0 / settings.width)
        noise = (counts + 1.0) ** _NOISE_POWER
        noise /= noise.sum()
        self._kl_weights = torch.from_numpy(weight.astype(np.float32)).to(self.device)
        self._cumulative = torch.from_numpy(np.cumsum(noise))
        expected = np.log(advanced.negatives * noise).astype(np.float32)
        self._log_expected = torch.from_numpy(expected).to(self.device)
        shape = (2, 1, n_streams or settings.advanced.batch_streams, hidden)
        self._carried = torch.zeros(shape, device=self.device)  # the state of the LSTM
        self.learned = {"table": {k: t.values for k, t in self.tables.items()}, "lstm": self.lstm}
        self.rest = {
            "sums": {name: table.sums for name, table in self.tables.items()},
            "adam": self.optimizer,
            "noise": self._generator,
            "carried": self._carried,
        }

    # -- one step ----------------------------------------------------------------------------------

    def step(self, batch: Batch, learning_rate: float) -> StepResult:
        """Update once from inputs and targets, both (length, streams); the loss is the negative bound."""
        self.lstm.train()
        n_tokens = batch[0].size
        inputs, targets = (torch.from_numpy(side).to(self.device) for side in batch)
        words, morphemes, prior = self._look_up(inputs)
        read = _expect(words)
        hidden, state = self.lstm(read, (self._carried[0], self._carried[1]))
        loss, outputs = self._output_loss(hidden.reshape(n_tokens, -1), targets.reshape(-1))
        occurrences = torch.bincount(words.places.reshape(-1), minlength=len(words.ids))
        weights = occurrences * self._kl_weights[words.ids]
        loss = loss + (weights * bernoulli_kl(words.values, prior)).sum()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._carried.copy_(torch.stack([part.detach() for part in state]))
        # the bound is a sum over tokens: AdaGrad's rows take it so, the LSTM the mean, which CLIP is meant for
        for parameter in self.lstm.parameters():
            if parameter.grad is not None:
                parameter.grad /= n_tokens
        norm = nn.utils.clip_grad_norm_(self.lstm.parameters(), CLIP)
        set_learning_rate(self.optimizer, learning_rate * self._rate_ratio)
        self.optimizer.step()
        for name, rows in (("words", words), ("morphemes", morphemes), ("outputs", outputs)):
            self.tables[name].step(rows, learning_rate)
        return StepResult(loss.detach(), n_tokens, norm)

    def _look_up(self, words: Tensor) -> tuple[Rows, Rows, Tensor]:
        """Return rows of the words and of their morphemes, and the sums of the latter (different words, width)."""
        rows = self.tables["words"].rows(words)
        begins = self._offsets[rows.ids]
        lengths = self._offsets[rows.ids + 1] - begins
        owner = torch.repeat_interleave(torch.arange(len(rows.ids), device=self.device), lengths)
        within = torch.arange(len(owner), device=self.device) - (lengths.cumsum(0) - lengths)[owner]
        pieces = self.tables["morphemes"].rows(self._pieces[begins[owner] + within])
        # an index_add would add with atomics on CUDA, in an order that varies
        how: dict[str, Any] = {"lengths": lengths, "axis": 0, "initial": 0, "unsafe": True}
        prior = torch.segment_reduce(pieces.values[pieces.places], "sum", **how)
        return rows, pieces, prior

    def _output_loss(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Rows]:
        """Return the loss of the targets (tokens,), and the output rows it used."""
        if self.settings.advanced.softmax == "exact":
            every = torch.arange(len(self._kl_weights), device=self.device)
            rows = self.tables["outputs"].rows(every)
            return exact_loss(hidden, targets, rows.values[:, :-1], rows.values[:, -1]), rows
        n = self.settings.advanced.negatives
        uniform = torch.rand(n, dtype=torch.float64, generator=self._generator)
        found = torch.searchsorted(self._cumulative, uniform * self._cumulative[-1])
        noise = found.clamp(max=len(self._cumulative) - 1).to(self.device)
        rows = self.tables["outputs"].rows(torch.cat([targets, noise]))
        values = rows.values[rows.places]
        own, other = values[: len(targets)], values[len(targets) :]
        loss = sampled_loss(
            hidden,
            (own[:, :-1], own[:, -1]),
            (other[:, :-1], other[:, -1]),
            (self._log_expected[targets], self._log_expected[noise]),
        )
        return loss, rows

    # -- evaluation --------------------------------------------------------------------------------

    @torch.no_grad()
    def evaluate(self) -> float | None:
        """Return the negative bound per token of the held-out stream, with the exact softmax, in nats."""
        if self.valid is None:
            return None
        self.lstm.eval()
        total, n_tokens, state = 0.0, 0, None
        batches = StreamBatches(self.valid, streams=16, length=max(1, _EVALUATED // 16))
        outputs = self.tables["outputs"].values
        for inputs, targets in batches.batches(0):
            words = self.tables["words"].rows(torch.from_numpy(inputs).to(self.device))
            found, state = self.lstm(_expect(words), state)
            aims = torch.from_numpy(targets).to(self.device).reshape(-1)
            hidden = found.reshape(len(aims), -1)
            total += exact_loss(hidden, aims, outputs[:, :-1], outputs[:, -1]).item()
            n_tokens += len(aims)
        return float(total / n_tokens + self.divergence() / self.n_tokens)

    @torch.no_grad()
    def divergence(self) -> float:
        """Return KL(Q || P) of the whole vocabulary in nats (eq 22)."""
        total = 0.0
        for ids in torch.arange(len(self._kl_weights), device=self.device).split(8192):
            rows, _, prior = self._look_up(ids)
            total += bernoulli_kl(rows.values, prior).sum().item()
        return total
