"""`VLHMM`: hidden Markov language models with tens of thousands of states (Chiu and Rush 2020, 2021)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from tacenda import devices
from tacenda.corpus import Corpus
from tacenda.errors import PluginUnavailableError, importing
from tacenda.estimator import Saved
from tacenda.fitting import BlockBatches, FitRun
from tacenda.settings import configured_by
from tacenda_lm.hidden_markov.model import HiddenMarkov
from tacenda_lm.hidden_markov.parameters import KINDS, Features, Free, Lexicon
from tacenda_lm.hidden_markov.settings import MEMORY_ADVICE, PLAN, VLHMMSettings
from tacenda_lm.hidden_markov.tables import pairs_of
from tacenda_lm.sequences import encode_corpus
from tacenda_lm.training import train

# small texts have smaller batches, down to so many words
_MIN_STEPS_PER_EPOCH, _MIN_BATCH_WORDS = 50, 256


class VLHMM(HiddenMarkov):
    """A hidden Markov language model whose states are divided among classes of words.

        p(x) = sum_z prod_t p(z_t | z_{t-1}) p(x_t | z_t)

    A state emits only the words of its class, so only k states are possible for a word, and a step costs k^2, not Z^2.
    Each of the four techniques of the paper is one option: ``n_classes``, ``state_dropout``,
    ``transitions="features"`` and, in ``advanced``, ``neural``. The paper's largest model has ``n_classes=128,
    states_per_class=256, width=256, transitions="flat", batch_words=512, learning_rate=0.01`` and Brown clusters.

    Raises ConfigurationError if an option is unknown or out of range, or the device does not exist.
    """

    name: ClassVar[str] = "vlhmm"
    settings: VLHMMSettings

    @configured_by(VLHMMSettings)
    def __init__(self, settings: VLHMMSettings) -> None:
        super().__init__(settings)
        settings.find_device()  # fails now, before any work, if there is no such device

    def _read_arrays(self, config: dict[str, Any], arrays: Saved) -> None:
        settings, advanced, sizes = self.settings, self.settings.advanced, self._sizes()
        kind = KINDS[settings.transitions] if advanced.neural else Free
        if kind is Features:
            sizes["width"] = advanced.n_features
        sizes |= {"classes": settings.n_classes, "states": settings.states_per_class}
        self.learned = kind.from_arrays(arrays, **sizes)

    def _fit(self, corpus: Corpus, valid: Corpus | None, fitting: FitRun) -> None:
        need = "fitting VLHMM needs torch, which using a fitted model does not"
        with importing(need, "tacenda-lm[torch]", error=PluginUnavailableError):
            from tacenda_lm.hidden_markov.network import draw_network
            from tacenda_lm.hidden_markov.training import EVALUATION_WORDS, Trainer
        from tacenda_lm.hidden_markov.word_classes import word_classes  # imports numba

        settings, n_types = self.settings, len(corpus.vocabulary)
        if settings.epochs is None:
            # where held-out text ends training early, a rate that stays high finds a better model at all sizes of text
            planned = PLAN.epochs(corpus.n_tokens, n_types)
            settings = replace(settings, epochs=planned if valid is None else PLAN.max_epochs)
        ids, offsets = encode_corpus(corpus)
        held_out = None if valid is None else encode_corpus(valid)
        method, boundary = settings.advanced.word_classes, corpus.vocabulary.boundary_id
        classes = word_classes(ids, n_types, settings.n_classes, boundary=boundary, method=method)
        lexicon = Lexicon.of(classes, settings.n_classes)
        batch = min(settings.batch_words, max(_MIN_BATCH_WORDS, len(ids) // _MIN_STEPS_PER_EPOCH))
        keys = None if settings.advanced.neural else pairs_of(ids, offsets, lexicon)
        evaluated = 0 if held_out is None else min(EVALUATION_WORDS, len(held_out[0]))
        needed = settings.bytes_needed(n_types, batch, evaluated, 0 if keys is None else len(keys))
        devices.check_memory(needed, settings.find_device(), settings, MEMORY_ADVICE)
        network = draw_network(settings, lexicon, corpus.type_counts, keys)
        trainer = Trainer(settings, network, lexicon, ids, offsets, held_out)
        source = BlockBatches(offsets, batch_size=batch, seed=settings.seed)
        with devices.out_of_memory(settings, MEMORY_ADVICE):
            history = train(trainer, source, fitting)
        self.learned = trainer.averaged.cpu().tables(lexicon)
        self._vocabulary = corpus.vocabulary
        self.fitted_on = {"training": history.as_dict()}
