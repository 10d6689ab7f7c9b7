"""Training a `VLHMM`: classes, first values, steps of Adam, and the tables of what was learned."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from tacenda import devices
from tacenda.corpus import Corpus
from tacenda.corpus.storage import laid_out
from tacenda.errors import ConfigurationError
from tacenda.fitting import BlockBatches, History, StepResult
from tacenda.fitting.processes import add_gradients, join, processes
from tacenda.fitting.processes import total as sum_of
from tacenda.fitting.torch_model import (
    load_module_arrays,
    load_optimizer_arrays,
    module_arrays,
    optimizer_arrays,
    set_learning_rate,
)
from tacenda.fitting.trainable import State
from tacenda.kernels.hidden_markov import class_softmax
from tacenda_lm.hidden_markov.classed_text import Lexicon, Observed, pairs_of, sentences_at, text_of
from tacenda_lm.hidden_markov.inference import Features, Flat, Free, Tables, Transitions, TwoLevel
from tacenda_lm.hidden_markov.parameters import Network, Tabular
from tacenda_lm.hidden_markov.settings import LESS, VLHMMSettings, check_memory, device_of
from tacenda_lm.hidden_markov.word_classes import word_classes
from tacenda_lm.sequences import Ids, Offsets, occurrences, pieces
from tacenda_lm.training import FitContext, averaging_weight, falling_rate, perplexity_of, train

__all__ = ["Trainer", "classes_of", "drawn", "fit_vlhmm"]

_LEAST = 0.02  # of the learning rate, at the end
_STEPS, _FEW = 50, 256  # of an epoch at least, unless so few words are left to each
_WARM = 100  # steps at most before the learning rate is what it says, and half an epoch
_BETAS = (0.9, 0.99)
_EVALUATED = 8192  # words of held-out text at a time


def fit_vlhmm(
    settings: VLHMMSettings, corpus: Corpus, valid: Corpus | None, fitting: FitContext
) -> tuple[Tables, History]:
    """Fit to a corpus."""
    settings = settings.planned(corpus.n_tokens, len(corpus.vocabulary), valid is not None)
    together = join(device_of(settings))
    ids, offsets = text_of(corpus)
    held_out = None if valid is None else text_of(valid)
    lexicon = classes_of(settings, corpus, ids)
    batch = min(settings.batch_words, max(_FEW, len(ids) // _STEPS))
    texts = (ids, offsets, batch), (*(held_out or (ids[:0], offsets[:1])), _EVALUATED)
    pairs = (
        min(size, len(pairs_of(text, cuts, lexicon, enough=size))) for text, cuts, size in texts
    )
    check_memory(settings, len(lexicon.classes), *pairs)
    network = drawn(settings, lexicon, ids, offsets)
    trainer = Trainer(settings, network, lexicon, ids, offsets, held_out)
    source = BlockBatches(offsets, batch_size=batch * together.size, seed=settings.seed)
    epochs, every = settings.epochs, settings.advanced.evaluate_every
    rate = falling_rate(settings.learning_rate, epochs, source, least=_LEAST, warm=_WARM)
    text = ids, offsets
    with devices.out_of_memory(settings, LESS):
        history = train(
            trainer, source, settings, text, held_out, fitting, rate, evaluate_every=every
        )
    trainer.load_parameters(trainer.parameters())
    return tables_of(network.cpu(), lexicon), history


def classes_of(settings: VLHMMSettings, corpus: Corpus, ids: Ids) -> Lexicon:
    """Return the classes of all words; one for all with ``n_classes=1``."""
    n_types, boundary = len(corpus.vocabulary), corpus.vocabulary.boundary_id
    if settings.n_classes == 1:
        return Lexicon.of(np.zeros(n_types, np.int32), 1)
    if settings.n_classes > n_types:
        raise ConfigurationError(
            f"VLHMM: n_classes is {settings.n_classes}, and the text has only {n_types} different "
            "words: give fewer classes, such as a tenth of the words"
        )
    first = np.array([boundary], np.int32)
    stream = laid_out(chain([first], pieces(ids)), np.int32)
    classes = word_classes(
        stream,
        n_types,
        settings.n_classes,
        boundary=boundary,
        method=settings.advanced.word_classes,
    )
    return Lexicon.of(classes, settings.n_classes)


def drawn(
    settings: VLHMMSettings, lexicon: Lexicon, ids: Ids, offsets: Offsets
) -> Network | Tabular:
    """Draw parameters that predict words about as often as they occur, whatever came before."""
    counts = occurrences(ids, len(lexicon.classes)) + 0.1
    mass = np.bincount(lexicon.classes, counts, minlength=lexicon.n_classes)
    words = np.log(counts / mass[lexicon.classes]).astype(np.float32)
    groups = np.log(np.maximum(mass, 1e-3) / mass.sum()).astype(np.float32)
    generator = torch.Generator().manual_seed(settings.seed)
    if settings.advanced.neural:
        return Network(settings, lexicon.order, words, groups, generator)
    keys = pairs_of(ids, offsets, lexicon)
    return Tabular(settings, lexicon, words, groups, keys, generator)


@torch.no_grad()
def tables_of(network: Network | Tabular, lexicon: Lexicon) -> Tables:
    """Return what was learned, as probabilities and vectors."""
    if isinstance(network, Tabular):
        return _free_tables(network, lexicon)
    found = network(None)
    left, reached, bias = (
        np.ascontiguousarray(array.numpy()) for array in (found.left, found.reached, found.bias)
    )
    transitions: Transitions
    if found.log_classes is not None:
        transitions = TwoLevel(left, reached, bias, found.log_classes.exp().numpy())
    elif network.transitions == "flat":
        transitions = Flat.of(left, reached, bias)
    else:
        transitions = Features(left, reached)
    emissions = class_softmax.forward(
        found.words.numpy(), found.word_bias.numpy(), found.emitting.numpy(), lexicon.offsets
    )
    return Tables(lexicon, emissions, found.log_starts.exp().numpy(), transitions)


def _free_tables(network: Tabular, lexicon: Lexicon) -> Tables:
    found, keys = network(None), network.keys
    sources, targets = np.divmod(keys, lexicon.n_classes)
    blocks = network.log_blocks(found.kept, sources, targets).exp().numpy()
    transitions = Free(blocks, keys, found.log_classes.exp().numpy())
    emissions, starts = found.log_emissions.exp().numpy(), found.log_starts.exp().numpy()
    return Tables(lexicon, emissions, starts, transitions)


class Trainer:
    """A model under training, as `tacenda.fitting` takes it; batches are numbers of sentences.

    The network is trained in place, on the device of the settings. The perplexity of ``valid`` is the criterion.
    """

    def __init__(
        self,
        settings: VLHMMSettings,
        network: Network | Tabular,
        lexicon: Lexicon,
        ids: Ids,
        offsets: Offsets,
        valid: tuple[Ids, Offsets] | None,
    ) -> None:
        self.settings, self.lexicon = settings, lexicon
        self.device = device_of(settings)
        self.network = network.to(self.device)
        self.ids, self.offsets, self.valid = ids, offsets, valid
        rates = {"lr": settings.learning_rate, "betas": _BETAS}
        self.optimizer = torch.optim.Adam(network.parameters(), **rates, fused=True)
        self.average = {name: p.detach().clone() for name, p in network.named_parameters()}
        self.steps = 0

    def step(self, batch: Any, learning_rate: float) -> StepResult:
        """Take one step on the mean log-probability of a word; of several processes each has a part of the batch."""
        own = processes().part(batch)
        observed = Observed.of(*sentences_at(self.ids, self.offsets, own), self.lexicon)
        set_learning_rate(self.optimizer, learning_rate)
        self.optimizer.zero_grad(set_to_none=True)
        outputs = self.network(self.kept_states())
        total = self._log_probability(outputs, observed)
        n = sum_of(len(observed.sequences.words))
        (total * (-1.0 / n)).backward()
        add_gradients(self.network.parameters())
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.advanced.clip_norm)
        self.optimizer.step()
        self.steps += 1
        self._follow()
        return StepResult(-sum_of(total.detach()), n, norm)

    def _log_probability(self, outputs: Any, observed: Observed) -> torch.Tensor:
        how = observed, self.lexicon, self.settings.threads
        return self.network.log_likelihood(outputs, *how)

    def kept_states(self) -> torch.Tensor | None:
        """Draw as many states of every class, anew for each step (state dropout); None where all are kept."""
        k = self.settings.states_per_class
        kept = max(1, round(k * (1 - self.settings.state_dropout)))
        if kept == k:
            return None
        rng = np.random.default_rng([self.settings.seed, 3, self.steps])
        drawn = rng.random((self.settings.n_classes, k), np.float32)
        states = np.sort(np.argpartition(drawn, kept - 1, axis=1)[:, :kept], axis=1)
        return torch.from_numpy(states).to(self.device)

    @torch.no_grad()
    def _follow(self) -> None:
        """Update the running average."""
        weight = averaging_weight(self.steps, self.settings.advanced.averaging)
        if not weight:
            return
        for name, parameter in self.network.named_parameters():
            self.average[name].lerp_(parameter.detach(), weight)

    @torch.no_grad()
    def evaluate(self) -> float | None:
        """Return the perplexity of the held-out text under the average of the parameters, all states kept."""
        if self.valid is None:
            return None
        ids, offsets = self.valid
        now = {name: p.detach().clone() for name, p in self.network.named_parameters()}
        self._put(self.average)
        try:
            outputs, total = self.network(None), 0.0
            borders = np.searchsorted(offsets, np.arange(0, len(ids) + _EVALUATED, _EVALUATED))
            borders = np.unique(np.minimum(borders, len(offsets) - 1))
            for first, last in pairwise(borders):
                chosen = sentences_at(ids, offsets, np.arange(first, last))
                observed = Observed.of(*chosen, self.lexicon)
                total += float(self._log_probability(outputs, observed))
        finally:
            self._put(now)
        return perplexity_of(-total / len(ids))

    @torch.no_grad()
    def _put(self, values: dict[str, torch.Tensor]) -> None:
        for name, parameter in self.network.named_parameters():
            parameter.copy_(values[name])

    def parameters(self) -> State:
        """Return what the model is made of: the averages."""
        return {name: tensor.cpu().numpy() for name, tensor in self.average.items()}

    def load_parameters(self, parameters: State) -> None:
        """Put them back."""
        load_module_arrays(self.network, parameters)
        self.average = {name: p.detach().clone() for name, p in self.network.named_parameters()}

    def state(self) -> State:
        """Return everything the next steps depend on."""
        parts = {
            "network": module_arrays(self.network),
            "average": self.parameters(),
            "optimizer": optimizer_arrays(self.optimizer),
        }
        arrays = {f"{part}/{name}": a for part, own in parts.items() for name, a in own.items()}
        return {**arrays, "steps": np.array(self.steps)}

    def load_state(self, state: State) -> None:
        """Put back what `state` gave. Raises ValueError where names or shapes do not fit."""
        own: dict[str, dict[str, Any]] = {"network": {}, "average": {}, "optimizer": {}}
        for key, array in state.items():
            part, _, name = key.partition("/")
            if part in own:
                own[part][name] = array
        self.load_parameters(own["average"])
        average = self.average
        load_module_arrays(self.network, own["network"])
        self.average = average
        load_optimizer_arrays(self.optimizer, own["optimizer"])
        self.steps = int(state["steps"])
