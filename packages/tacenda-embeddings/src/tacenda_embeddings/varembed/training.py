"""Training: truncated backpropagation through an LSTM language model over expected word embeddings.

Training climbs the lower bound (Bhatia, Guthrie and Eisenstein, EMNLP 2016, eqs 19 to 23)

    L = sum_t log P(x_t | x_{1:t-1}; E_q[b]) - KL(Q(b) || P(b))

The likelihood is taken at the expected embeddings (eqs 18 and 19), so L is an approximation of the bound,
not a bound itself, as soon as the network is not linear in them.

A step touches the vectors of the words, morphemes and outputs that its batch contains and no others, so its
cost does not depend on the size of the vocabulary, except with the exact softmax.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
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
from tacenda_embeddings.settings import VarEmbedSettings
from tacenda_embeddings.varembed.initial_vectors import (
    Factorization,
    WordVectors,
    find_vectors,
    fit_morphemes,
)

Ids = npt.NDArray[np.int32]
Batch = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Inputs and targets, both (length, streams)."""

LSTM_RATE = 2e-3  # learning rate of the LSTM, for Adam
CLIP = 1.0  # largest norm of the LSTM's gradient per token

_EVAL_STREAMS, _EVAL_STEPS = 16, 32  # streams and tokens of each, in one exact softmax
_KL_TYPES = 8192  # words whose divergence is computed at a time
_OUTPUT_INIT_STD = 0.05  # standard deviation of the initial output vectors
_LSTM_INIT_BOUND = 0.08  # of the uniform distribution of the initial LSTM (section 3.2)
_NOISE_POWER = 0.75  # of the word frequencies, for the words the sampled softmax draws
_ADAGRAD_START = 1e-6  # of the accumulators
_WINDOW, _POWER = 10, 0.5  # of the `Factorization` that the initial vectors come from
_FINAL_RATE_SHARE = 0.1  # of the learning rate, at the end
_REFIT_RIDGE_SHARE = 0.1  # of the ridge, after training
_STEPS_BETWEEN_LOSS_CHECKS = 50  # reading the loss waits for the GPU
_MEMORY_ADVICE = "fewer batch_streams or unrolled_tokens, a smaller vocabulary, or a smaller width"


# -- the whole fit -------------------------------------------------------------------------------------


def fit_word_vectors(
    settings: VarEmbedSettings,
    text: Corpus,
    valid: Corpus | None,
    vectors: npt.NDArray[np.float32] | None,
    run: FitRun,
) -> tuple[WordVectors, History, dict[str, Any]]:
    """Train word vectors on a text; return them, the history, and the bound; `VarEmbed.fit` lists the errors.

    ``valid`` is held-out text in the same vocabulary, ``vectors`` are initial word vectors, float32 (types, width),
    instead of ``settings.start``. The words that are returned are logits of the posterior.
    """
    advanced = settings.advanced
    device = devices.resolve(settings, ())  # refuses a missing device before any work
    stream = concatenate(text)
    held_out = None if valid is None else concatenate(valid)
    counts = text.type_counts.copy()
    counts[text.vocabulary.boundary_id] += 1  # the one before them all
    factorization = Factorization(_WINDOW, advanced.start_adjacent, _POWER, _POWER)
    start = find_vectors(settings, text, counts, factorization, vectors, settings.start)
    needed = bytes_needed(settings, len(counts), len(start.inventory))
    devices.check_memory(needed, device, settings, _MEMORY_ADVICE)

    floor = _FINAL_RATE_SHARE * settings.learning_rate
    rate = Cosine(settings.learning_rate, epochs=max(settings.epochs, 1), floor=floor)
    loop = FitSettings(
        epochs=settings.epochs,
        learning_rate=rate,
        patience=None if held_out is None else settings.patience,
        check_losses_every=_STEPS_BETWEEN_LOSS_CHECKS,
        on_divergence="return",
    )
    source = StreamBatches(stream, streams=advanced.batch_streams, length=advanced.unrolled_tokens)
    with ExitStack() as restore:
        restore.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(settings.threads or torch.get_num_threads())
        # an LSTM draws from torch's own generator when it is created
        restore.enter_context(torch.random.fork_rng(devices=[]))
        restore.enter_context(devices.full_precision(device))
        restore.enter_context(devices.out_of_memory(settings, _MEMORY_ADVICE))
        trainer = Trainer(settings, start, counts, source.n_streams, held_out, device)
        identity = partial(_identify, settings, start, held_out)
        history = fitting.fit(trainer, source, loop, run, identity)
        if advanced.refit_morphemes and settings.epochs > 0:
            # by the regression of the start; the bound counts every word of the text once
            words, weights = trainer.tables["words"].to_numpy(), (counts > 0).astype(np.float64)
            ridge = _REFIT_RIDGE_SHARE * start.ridge
            morphemes = fit_morphemes(start.inventory, words, weights, ridge)
            trainer.tables["morphemes"].values.copy_(torch.from_numpy(morphemes))
        figure = _measure_bound(trainer, history)
        words, morphemes = (trainer.tables[name].to_numpy() for name in ("words", "morphemes"))
    return start._replace(words=words, morphemes=morphemes), history, figure


def _identify(
    settings: VarEmbedSettings, start: WordVectors, held_out: Ids | None
) -> dict[str, Any]:
    """Return everything but the text that a fit must have in common with the checkpoint that it resumes from."""
    options = settings.to_dict()
    # a resumed fit may change these, because what a step computes does not depend on them
    del options["device"], options["threads"], options["advanced"]["refit_morphemes"]
    return {
        "settings": options,
        "start": fingerprint_arrays((start.words, start.morphemes)),
        "valid": None if held_out is None else fingerprint_arrays((held_out,)),
    }


def bytes_needed(settings: VarEmbedSettings, n_types: int, n_morphemes: int) -> int:
    """Estimate the bytes of the tables, and of the arrays of a step or an evaluation."""
    advanced = settings.advanced
    tokens, wide = advanced.batch_streams * advanced.unrolled_tokens, advanced.hidden + 1
    tables = (n_types + n_morphemes) * (settings.width + 1) + n_types * (wide + 1)
    network = 16 * advanced.hidden * (settings.width + wide + 1)  # gradients and moments included
    exact = advanced.softmax == "exact"
    scored = n_types if exact else advanced.negatives
    outputs = (n_types if exact else tokens + scored) * wide
    step = tokens * (6 * settings.width + 16 * advanced.hidden + 3 * scored) + 3 * outputs
    return 4 * (tables + network + max(step, 2 * _EVAL_STREAMS * _EVAL_STEPS * n_types))


def _measure_bound(trainer: Trainer, history: History) -> dict[str, Any]:
    """Return the bound on held-out text or, without it, the mean of the last epoch."""
    value, protocol = trainer.evaluate(), "held-out text, exact softmax"
    if trainer.valid is None:
        softmax = trainer.settings.advanced.softmax
        protocol = f"training text, mean of the last epoch, {softmax} softmax"
        value = history.epoch_losses[-1] if history.epoch_losses else None
    return {
        "measure": "negative lower bound, nats per token",
        "value": value,
        "protocol": protocol,
        "divergence per token": trainer.divergence() / trainer.n_tokens,
    }


# -- the text ------------------------------------------------------------------------------------------


def concatenate(corpus: Corpus) -> Ids:
    """Return the ids of all sentences (tokens,), int32, each followed by ``</s>``, with one ``</s>`` before the first.

    The ids of a large text are written to a file and mapped from there.
    """
    boundary = np.array([corpus.vocabulary.boundary_id], np.int32)
    return lay_out(chain(corpus.stream(), [boundary]), np.int32)


class StreamBatches:
    """The text cut into streams of equal length, ``length`` tokens of each at a time.

    A batch is (inputs, targets), both int64 (length, streams), the targets one token later. Batches follow the order
    of the text, so the state of a recurrent network can be carried from one batch to the next. The last tokens of the
    text, fewer than there are streams, are left out.
    """

    def __init__(self, ids: Ids, *, streams: int, length: int) -> None:
        self.ids, self.streams, self.length = ids, streams, length
        self.n_streams = max(1, min(streams, (len(ids) - 1) // 2))
        self.n_steps = (len(ids) - 1) // self.n_streams

    def n_batches(self, epoch: int) -> int:
        """Return the number of batches, the same in every epoch."""
        return -(-self.n_steps // self.length)

    def batches(self, epoch: int, skip: int = 0) -> Iterator[Batch]:
        """Yield the batches in the order of the text, without the first ``skip``."""
        used = self.n_streams * self.n_steps
        inputs = self.ids[:used].reshape(self.n_streams, -1)
        targets = self.ids[1 : used + 1].reshape(self.n_streams, -1)
        for index in range(skip, self.n_batches(epoch)):
            span = slice(index * self.length, (index + 1) * self.length)
            yield (
                np.ascontiguousarray(inputs[:, span].T, dtype=np.int64),
                np.ascontiguousarray(targets[:, span].T, dtype=np.int64),
            )
            forget_pages(self.ids)

    def fingerprint(self) -> str:
        """Return a hash of the ids and of how they are cut."""
        return fingerprint_arrays((self.ids,), "streams", self.streams, self.length)


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


def sampled_loss(hidden: Tensor, outputs: Tensor, biases: Tensor, log_expected: Tensor) -> Tensor:
    """Return the loss, in nats, of a softmax over the target and noise words that a whole batch shares.

        -s_x + log(e^{s_x} / E_x + sum over the noise words j of e^{s_j} / E_j)

    s are the scores of a token, and E_j is how often j is expected among the noise words. The sum estimates the
    normalizer, and the gradient is that of the ranking objective of noise-contrastive estimation, whose optimum is that
    of the softmax for any number of noise words (Ma and Collins 2018, section 3). A noise word that equals the target
    stays in: removing it would bias the scores of frequent words.

    Takes hidden (tokens, hidden) and, of the target x of each token and then of the noise words, outputs
    (tokens + noise words, hidden), biases and log E (tokens + noise words,).
    """
    n = len(hidden)
    target_scores = (hidden * outputs[:n]).sum(1) + biases[:n]
    noise_scores = torch.addmm(biases[n:] - log_expected[n:], hidden, outputs[n:].T)
    log_normalizer = torch.logaddexp(target_scores - log_expected[:n], noise_scores.logsumexp(1))
    return (log_normalizer - target_scores).sum()


# -- the network ---------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """The distinct rows of a table that a batch uses."""

    ids: Tensor  # int64 (rows,), ascending
    places: Tensor  # int64, the index in ``ids`` of each id that was asked for, in their shape
    values: Tensor  # (rows, width), a leaf that collects the gradient


def _compute_inputs(words: Rows) -> Tensor:
    """Return the inputs of the LSTM for each word of a batch, 2 E_q[b] - 1 (length, streams, width)."""
    return (words.values.sigmoid() * 2 - 1)[words.places]


class RowTable:
    """A float32 table of vectors (all, width) of which a step touches a few rows.

    The rows are leaves of autograd, not the table. As in `tacenda.kernels.shared.adagrad`, AdaGrad has one accumulator
    a row, ``sums`` (all, 1), on the device of the table. A step does not change rows that its batch does not contain.
    """

    def __init__(self, values: Tensor) -> None:
        self.values = values
        self.sums = torch.full((len(values), 1), _ADAGRAD_START, device=values.device)

    def to_numpy(self) -> npt.NDArray[np.float32]:
        """Return a copy of the table (all, width)."""
        return np.array(self.values.cpu().numpy())

    def rows(self, ids: Tensor) -> Rows:
        """Return the rows with these ids (any shape), as leaves."""
        distinct, places = torch.unique(ids, return_inverse=True)
        return Rows(distinct, places, self.values[distinct].requires_grad_())

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

    All random numbers are drawn on the CPU, so that they do not depend on the device.

    Parameters
    ----------
    start
        The initial vectors of words and morphemes.
    counts
        int64 (types,), occurrences of the words in the training stream.
    n_streams
        Pieces of the text that are read in parallel.
    valid
        The held-out stream, int32 (tokens,), or None.
    device
        Name of a torch device.
    """

    def __init__(
        self,
        settings: VarEmbedSettings,
        start: WordVectors,
        counts: npt.NDArray[np.int64],
        n_streams: int,
        valid: Ids | None = None,
        device: str = "cpu",
    ) -> None:
        hidden = settings.advanced.hidden
        self.settings, self.valid = settings, valid
        self.device = torch.device(device)
        self.n_tokens = int(counts.sum())
        self._generator = torch.Generator().manual_seed(settings.seed)
        self.tables = self._build_tables(counts, start)
        self.lstm = nn.LSTM(settings.width, hidden)
        for parameter in self.lstm.parameters():
            bound = _LSTM_INIT_BOUND
            nn.init.uniform_(parameter, -bound, bound, generator=self._generator)
        self.lstm.to(self.device)
        self.optimizer = torch.optim.Adam(self.lstm.parameters(), lr=LSTM_RATE)
        self._rate_ratio = LSTM_RATE / max(settings.learning_rate, 1e-30)
        self._offsets = torch.from_numpy(start.inventory.offsets).to(self.device)
        self._pieces = torch.from_numpy(start.inventory.ids).to(self.device)
        # the weight of one occurrence of each word in the divergence
        kl_weights = 1.0 / np.maximum(counts, 1)
        if settings.advanced.kl == "tokens":
            kl_weights = np.full(len(counts), 1.0 / settings.width)
        self._kl_weights = torch.from_numpy(kl_weights.astype(np.float32)).to(self.device)
        self._cumulative_noise, self._log_expected = self._build_noise(counts)
        # the state of the LSTM
        self._carried = torch.zeros((2, 1, n_streams, hidden), device=self.device)
        self.learned = {"table": {k: t.values for k, t in self.tables.items()}, "lstm": self.lstm}
        self.rest = {
            "sums": {name: table.sums for name, table in self.tables.items()},
            "adam": self.optimizer,
            "noise": self._generator,
            "carried": self._carried,
        }

    def _build_tables(
        self, counts: npt.NDArray[np.int64], start: WordVectors
    ) -> dict[str, RowTable]:
        """Return the tables of words, morphemes and outputs; the last column of the outputs is their bias."""
        words, morphemes = (torch.from_numpy(x.copy()) for x in (start.words, start.morphemes))
        shape = len(counts), self.settings.advanced.hidden
        drawn = torch.randn(shape, generator=self._generator) * _OUTPUT_INIT_STD
        biases = np.log((counts + 1.0) / (counts + 1.0).sum()).astype(np.float32)
        outputs = torch.cat([drawn, torch.from_numpy(biases)[:, None]], 1)
        tables = {"words": words, "morphemes": morphemes, "outputs": outputs}
        return {name: RowTable(values.to(self.device)) for name, values in tables.items()}

    def _build_noise(self, counts: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return the cumulative distribution of the noise words, float64 (types,) on the CPU, and log E.

        E (types,), float32, is how often each type is expected among the noise words of a batch.
        """
        noise = (counts + 1.0) ** _NOISE_POWER
        noise /= noise.sum()
        log_expected = np.log(self.settings.advanced.negatives * noise).astype(np.float32)
        return torch.from_numpy(np.cumsum(noise)), torch.from_numpy(log_expected).to(self.device)

    # -- one step ----------------------------------------------------------------------------------

    def step(self, batch: Batch, learning_rate: float) -> StepResult:
        """Update once from inputs and targets, both (length, streams); the loss is the negative bound in nats."""
        self.lstm.train()
        n_tokens = batch[0].size
        inputs, targets = (torch.from_numpy(ids).to(self.device) for ids in batch)
        words, morphemes, prior = self._look_up(inputs)
        carried = self._carried[0], self._carried[1]
        hidden, state = self.lstm(_compute_inputs(words), carried)
        loss, outputs = self._compute_output_loss(hidden.reshape(n_tokens, -1), targets.reshape(-1))
        occurrences = torch.bincount(words.places.reshape(-1), minlength=len(words.ids))
        weights = occurrences * self._kl_weights[words.ids]
        loss = loss + (weights * bernoulli_kl(words.values, prior)).sum()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._carried.copy_(torch.stack([part.detach() for part in state]))
        # the bound is a sum over tokens: AdaGrad takes the sum, the LSTM the mean, which CLIP is meant for
        for parameter in self.lstm.parameters():
            if parameter.grad is not None:
                parameter.grad /= n_tokens
        norm = nn.utils.clip_grad_norm_(self.lstm.parameters(), CLIP)
        set_learning_rate(self.optimizer, learning_rate * self._rate_ratio)
        self.optimizer.step()
        for name, rows in (("words", words), ("morphemes", morphemes), ("outputs", outputs)):
            self.tables[name].step(rows, learning_rate)
        return StepResult(loss.detach(), n_tokens, norm)

    def _look_up(self, ids: Tensor) -> tuple[Rows, Rows, Tensor]:
        """Return the rows of words, given their ids (any shape), those of their morphemes, and the prior of each row.

        The prior of a word is the sum of its morphemes, (distinct words, width).
        """
        words = self.tables["words"].rows(ids)
        begins = self._offsets[words.ids]
        lengths = self._offsets[words.ids + 1] - begins
        # for each morpheme of each word, the index of the word, and the position of the morpheme within the word
        owner = torch.repeat_interleave(torch.arange(len(words.ids), device=self.device), lengths)
        within = torch.arange(len(owner), device=self.device) - (lengths.cumsum(0) - lengths)[owner]
        morphemes = self.tables["morphemes"].rows(self._pieces[begins[owner] + within])
        # an index_add would add with atomics on CUDA, in an order that varies
        options: dict[str, Any] = {"lengths": lengths, "axis": 0, "initial": 0, "unsafe": True}
        prior = torch.segment_reduce(morphemes.values[morphemes.places], "sum", **options)
        return words, morphemes, prior

    def _compute_output_loss(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Rows]:
        """Return the loss of the targets (tokens,) in nats, and the output rows that it depends on."""
        if self.settings.advanced.softmax == "exact":
            types = torch.arange(len(self._kl_weights), device=self.device)
            rows = self.tables["outputs"].rows(types)
            return exact_loss(hidden, targets, rows.values[:, :-1], rows.values[:, -1]), rows
        ids = torch.cat([targets, self._draw_noise()])
        rows = self.tables["outputs"].rows(ids)
        values = rows.values[rows.places]
        return sampled_loss(hidden, values[:, :-1], values[:, -1], self._log_expected[ids]), rows

    def _draw_noise(self) -> Tensor:
        """Draw the ids (negatives,) of the noise words of a batch."""
        cumulative = self._cumulative_noise
        uniform = torch.rand(
            self.settings.advanced.negatives, dtype=torch.float64, generator=self._generator
        )
        ids = torch.searchsorted(cumulative, uniform * cumulative[-1])
        return ids.clamp(max=len(cumulative) - 1).to(self.device)

    # -- evaluation --------------------------------------------------------------------------------

    @torch.no_grad()
    def evaluate(self) -> float | None:
        """Return the negative bound of the held-out stream in nats per token, with the exact softmax."""
        if self.valid is None:
            return None
        self.lstm.eval()
        total, n_tokens, state = 0.0, 0, None
        batches = StreamBatches(self.valid, streams=_EVAL_STREAMS, length=_EVAL_STEPS)
        outputs = self.tables["outputs"].values
        for inputs, targets in batches.batches(0):
            words = self.tables["words"].rows(torch.from_numpy(inputs).to(self.device))
            hidden, state = self.lstm(_compute_inputs(words), state)
            ids = torch.from_numpy(targets).to(self.device).reshape(-1)
            hidden = hidden.reshape(len(ids), -1)
            total += exact_loss(hidden, ids, outputs[:, :-1], outputs[:, -1]).item()
            n_tokens += len(ids)
        return float(total / n_tokens + self.divergence() / self.n_tokens)

    @torch.no_grad()
    def divergence(self) -> float:
        """Return KL(Q || P) of the whole vocabulary in nats (eq 22)."""
        total = 0.0
        for ids in torch.arange(len(self._kl_weights), device=self.device).split(_KL_TYPES):
            words, _, prior = self._look_up(ids)
            total += bernoulli_kl(words.values, prior).sum().item()
        return total
