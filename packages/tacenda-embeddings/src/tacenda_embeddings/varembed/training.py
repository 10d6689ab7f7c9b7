"""Training: truncated backpropagation through an LSTM language model over expected word embeddings.

What is climbed is the lower bound (Bhatia, Guthrie and Eisenstein, EMNLP 2016, eqs 19 to 23)

    L = sum_t log P(x_t | x_{1:t-1}; E_q[b]) - KL(Q(b) || P(b))

The likelihood is taken at the expected embeddings (eqs 18 and 19), so L is an approximation of the bound,
not a bound itself, as soon as the network is not linear in them.

A step touches the vectors of the words, morphemes and outputs that its batch contains and no others, so its
cost does not depend on the size of the vocabulary, except with the exact softmax.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, softplus

from tacenda import fitting
from tacenda.corpus import Corpus
from tacenda.corpus.storage import forget_pages, laid_out
from tacenda.fitting import StepResult, fingerprint_arrays
from tacenda.fitting.processes import add_gradients, add_rows, gathered, processes
from tacenda.fitting.processes import total as sum_of
from tacenda.fitting.torch_model import (
    generator_arrays,
    load_generator_arrays,
    load_module_arrays,
    load_optimizer_arrays,
    module_arrays,
    optimizer_arrays,
    set_learning_rate,
    to_array,
    to_tensor,
)
from tacenda.fitting.trainer import State
from tacenda_embeddings.varembed.morphemes import Inventory
from tacenda_embeddings.varembed.settings import VarEmbedAdvanced, WordVectorSettings

__all__ = [
    "Ids",
    "RowTable",
    "StreamBatches",
    "Trainer",
    "bernoulli_kl",
    "exact_loss",
    "joined",
    "sampled_loss",
]

Ids = npt.NDArray[np.int32]

EVALUATED = 512  # tokens whose exact softmax is computed at a time
_OUTPUTS = 0.05  # standard deviation of the initial output vectors
_LSTM = 0.08  # bound of the LSTM's uniform start (section 3.2)
_NOISE_POWER = 0.75  # of the word frequencies, for the words the sampled softmax draws

_ADAGRAD_START = 1e-6  # of the accumulators


# -- the text -------------------------------------------------------------------------------------------


def joined(corpus: Corpus) -> Ids:
    """Return all sentences in a row, int32, each followed by ``</s>``, with one ``</s>`` before them all.

    What is large lies in a file and is mapped from there.
    """
    boundary = np.array([corpus.vocabulary.boundary_id], np.int32)
    return laid_out(chain(corpus.stream(), [boundary]), np.int32)


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

    def batches(
        self, epoch: int, skip: int = 0
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Yield the ids of each batch and those that follow them, both (length, streams), in the order of the text."""
        used = self.n_streams * self.n_steps
        before = self.ids[:used].reshape(self.n_streams, -1)
        after = self.ids[1 : used + 1].reshape(self.n_streams, -1)
        for index in range(skip, self.n_batches(epoch)):
            span = slice(index * self.length, (index + 1) * self.length)
            yield tuple(  # type: ignore[misc]
                np.ascontiguousarray(side[:, span].T, dtype=np.int64) for side in (before, after)
            )
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

    E_j is how often j is expected among the words drawn. The sum estimates the normaliser, and the gradient is
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
    places: Tensor  # int64, of the shape that was asked for: which of ``ids`` stands where
    values: Tensor  # (rows, width), a leaf that collects the gradient


class RowTable:
    """A float32 table of vectors (all, width) of which a step touches a few rows.

    The rows are leaves of autograd, not the table. AdaGrad has one accumulator a row, ``sums`` (all, 1), as
    `tacenda.kernels.shared.row_steps` has, on whatever device the table is; nothing is ever done to rows that
    a batch does not contain.
    """

    def __init__(self, values: Tensor) -> None:
        self.values = values
        self.sums = torch.full((len(values), 1), _ADAGRAD_START, device=values.device)

    def rows(self, ids: Tensor) -> Rows:
        """Return the rows with these ids (any shape), as leaves."""
        different, places = torch.unique(ids, return_inverse=True)
        return Rows(different, places, self.values[different].requires_grad_())

    def step(self, rows: Rows, rate: float) -> None:
        """Step s += mean(g ** 2), w -= rate g / sqrt(s) in these rows, unless they have no gradient.

        The gradients of several processes are added up.
        """
        if rows.values.grad is None:
            return
        ids, gradient = add_rows(rows.ids, rows.values.grad)
        sums = self.sums[ids] + gradient.square().mean(1, keepdim=True)
        self.sums[ids] = sums
        self.values[ids] = self.values[ids] - rate * gradient / sums.sqrt()


class Trainer(fitting.Trainer):
    """A model under training, as `tacenda.fitting` takes it.

    `VarEmbedSettings` have the prior, any others sum the morphemes. ``counts`` int64 (types,) are those of the training
    stream, ``words`` (types, width) and ``morphemes`` (morphemes, width) the initial vectors, ``valid`` the held-out
    stream or None; ``device`` is where everything lies. All that is drawn is drawn on the CPU, but for dropout.
    """

    def __init__(
        self,
        settings: WordVectorSettings,
        inventory: Inventory,
        counts: npt.NDArray[np.int64],
        words: npt.NDArray[np.float32],
        morphemes: npt.NDArray[np.float32],
        valid: Ids | None = None,
        device: str = "cpu",
    ) -> None:
        self.settings, self.valid = settings, valid
        self.device = torch.device(device)
        self.variational = isinstance(settings.advanced, VarEmbedAdvanced)
        self.n_tokens = int(counts.sum())
        self._generator = torch.Generator().manual_seed(settings.seed)
        biases = np.log((counts + 1.0) / (counts + 1.0).sum()).astype(np.float32)
        drawn = (
            torch.randn(len(counts), settings.advanced.hidden, generator=self._generator) * _OUTPUTS
        )
        outputs = torch.cat([drawn, torch.from_numpy(biases)[:, None]], 1)
        self.tables = {
            "words": RowTable(torch.from_numpy(words.copy()).to(self.device)),
            "morphemes": RowTable(torch.from_numpy(morphemes.copy()).to(self.device)),
            "outputs": RowTable(outputs.to(self.device)),  # the last column is the bias
        }
        self.lstm = nn.LSTM(settings.width, settings.advanced.hidden)
        for parameter in self.lstm.parameters():
            nn.init.uniform_(parameter, -_LSTM, _LSTM, generator=self._generator)
        self.lstm.to(self.device)
        rate = settings.advanced.lstm_learning_rate
        self.optimizer = torch.optim.Adam(self.lstm.parameters(), lr=rate)
        self._rate_ratio = rate / max(settings.learning_rate, 1e-30)
        self._offsets = torch.from_numpy(inventory.offsets).to(self.device)
        self._pieces = torch.from_numpy(inventory.ids).to(self.device)
        self._prepare_counts(counts)
        self._carried: tuple[Tensor, Tensor] | None = None

    def _prepare_counts(self, counts: npt.NDArray[np.int64]) -> None:
        """Prepare what one occurrence of each word weighs in the divergence, and the words of noise."""
        advanced = self.settings.advanced
        weight = np.zeros(len(counts))
        if isinstance(advanced, VarEmbedAdvanced):
            weight = 1.0 / np.maximum(counts, 1)
            if advanced.kl == "tokens":
                weight = np.full(len(counts), 1.0 / self.settings.width)
            weight = weight * advanced.kl_weight
        noise = (counts + 1.0) ** _NOISE_POWER
        noise /= noise.sum()
        self._kl_weights = torch.from_numpy(weight.astype(np.float32)).to(self.device)
        self._cumulative = torch.from_numpy(np.cumsum(noise))
        expected = np.log(self.settings.advanced.negatives * noise).astype(np.float32)
        self._log_expected = torch.from_numpy(expected).to(self.device)

    def set_morphemes(self, vectors: npt.NDArray[np.float32]) -> None:
        """Put other morpheme vectors (morphemes, width) in the place of those learned."""
        self.tables["morphemes"].values = torch.from_numpy(vectors).to(self.device)

    # -- one step ----------------------------------------------------------------------------------

    def step(
        self, batch: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]], learning_rate: float
    ) -> StepResult:
        """Update once from inputs and targets, both (length, streams); the loss is the negative bound.

        Of several processes each has some of the streams; all draw the same.
        """
        self.lstm.train()
        n_tokens, group = batch[0].size, processes()
        inputs, targets = (
            torch.from_numpy(np.ascontiguousarray(group.part(side.T).T)).to(self.device)
            for side in batch
        )
        words, morphemes, prior = self._looked_up(inputs)
        hidden = self._read(self._embedded(words, prior)[words.places], carry=True)
        loss, outputs = self._output_loss(hidden, targets.reshape(-1))
        if self.variational:
            occurrences = torch.bincount(words.places.reshape(-1), minlength=len(words.ids))
            weights = occurrences * self._kl_weights[words.ids]
            loss = loss + (weights * bernoulli_kl(words.values, prior)).sum()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        add_gradients(self.lstm.parameters())
        for parameter in self.lstm.parameters():
            if parameter.grad is not None:
                parameter.grad /= n_tokens
        norm = nn.utils.clip_grad_norm_(self.lstm.parameters(), self.settings.advanced.clip)
        set_learning_rate(self.optimizer, learning_rate * self._rate_ratio)
        self.optimizer.step()
        for name, rows in (("words", words), ("morphemes", morphemes), ("outputs", outputs)):
            if rows is not None:
                self.tables[name].step(rows, learning_rate)
        return StepResult(sum_of(loss.detach()), n_tokens, norm)

    def _looked_up(self, words: Tensor) -> tuple[Rows, Rows, Tensor]:
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

    def _embedded(self, words: Rows, prior: Tensor) -> Tensor:
        """Return what the LSTM reads for each different word: 2 E_q[b] - 1, or word plus morphemes."""
        return words.values.sigmoid() * 2 - 1 if self.variational else words.values + prior

    def _read(self, embedded: Tensor, carry: bool) -> Tensor:
        """Return hidden states (tokens, hidden) of inputs (length, streams, width)."""
        rate, training = self.settings.dropout, self.lstm.training
        group, state = processes(), None
        if carry and self._carried is not None:
            state = tuple(part[:, group.rank :: group.size].contiguous() for part in self._carried)
        hidden, state = self.lstm(dropout(embedded, rate, training), state)
        if carry:
            self._carried = tuple(gathered(part.detach(), 1) for part in state)
        return dropout(hidden.reshape(-1, hidden.shape[-1]), rate, training)

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
        batches = StreamBatches(self.valid, streams=16, length=max(1, EVALUATED // 16))
        outputs = self.tables["outputs"].values
        for inputs, targets in batches.batches(0):
            words, _, prior = self._looked_up(torch.from_numpy(inputs).to(self.device))
            found, state = self.lstm(self._embedded(words, prior)[words.places], state)
            aims = torch.from_numpy(targets).to(self.device).reshape(-1)
            hidden = found.reshape(len(aims), -1)
            total += exact_loss(hidden, aims, outputs[:, :-1], outputs[:, -1]).item()
            n_tokens += len(aims)
        return float(total / n_tokens + self.divergence() / self.n_tokens)

    @torch.no_grad()
    def divergence(self) -> float:
        """Return KL(Q || P) of the whole vocabulary in nats (eq 22); zero for a model without a prior."""
        if not self.variational:
            return 0.0
        total = 0.0
        for ids in torch.arange(len(self._kl_weights), device=self.device).split(8192):
            rows, _, prior = self._looked_up(ids)
            total += bernoulli_kl(rows.values, prior).sum().item()
        return total

    # -- state -------------------------------------------------------------------------------------

    def parameters(self) -> State:
        """Return everything that is learned."""
        tables = {f"table/{name}": to_array(table.values) for name, table in self.tables.items()}
        return {**tables, **{f"lstm/{k}": a for k, a in module_arrays(self.lstm).items()}}

    def load_parameters(self, parameters: State) -> None:
        """Put back what `parameters` gave. Raises ValueError where shapes do not fit."""
        for name, table in self.tables.items():
            array = parameters[f"table/{name}"]
            if array.shape != tuple(table.values.shape):
                raise ValueError(f"{name} has shape {array.shape}, not {tuple(table.values.shape)}")
            table.values = to_tensor(array, table.values)
        load_module_arrays(self.lstm, _part(parameters, "lstm/"))

    def state(self) -> State:
        """Return all that the next steps depend on."""
        sums = {f"sums/{name}": to_array(table.sums) for name, table in self.tables.items()}
        moments = {f"adam/{k}": a for k, a in optimizer_arrays(self.optimizer).items()}
        drawn = generator_arrays({"noise": self._generator}, self.device.type == "cuda")
        states = {f"generator/{k}": a for k, a in drawn.items()}
        carried = {f"carried/{i}": to_array(part) for i, part in enumerate(self._carried or ())}
        return {**self.parameters(), **sums, **moments, **states, **carried}

    def load_state(self, state: State) -> None:
        """Put back what `state` gave."""
        self.load_parameters(state)
        for name, table in self.tables.items():
            table.sums = to_tensor(state[f"sums/{name}"], table.sums)
        load_optimizer_arrays(self.optimizer, _part(state, "adam/"))
        load_generator_arrays({"noise": self._generator}, _part(state, "generator/"))
        parts = _part(state, "carried/")
        like = self.tables["words"].values
        self._carried = (
            (to_tensor(parts["0"], like), to_tensor(parts["1"], like)) if parts else None
        )


def _part(state: State, prefix: str) -> Mapping[str, npt.NDArray[Any]]:
    """Return the arrays whose names begin with a prefix, without it."""
    return {key[len(prefix) :]: array for key, array in state.items() if key.startswith(prefix)}
