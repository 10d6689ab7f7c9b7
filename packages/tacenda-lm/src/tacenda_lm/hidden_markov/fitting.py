"""Fitting a `VLHMM`: classes, first values, training, and the tables of what was learnt."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from tacenda.corpus import Corpus
from tacenda.errors import ConfigurationError, CorpusError
from tacenda.fitting import BlockBatches, Cosine, FitSettings, History, WarmUp, fit
from tacenda.fitting.batches import fingerprint_arrays
from tacenda.fitting.checkpoint import Resume
from tacenda.kernels.hidden_markov import class_softmax
from tacenda_lm.hidden_markov.blocks import BlockStore, Transitions
from tacenda_lm.hidden_markov.classes import word_classes
from tacenda_lm.hidden_markov.config import VLHMMConfig
from tacenda_lm.hidden_markov.device import check_device
from tacenda_lm.hidden_markov.memory import check_memory
from tacenda_lm.hidden_markov.network import Network
from tacenda_lm.hidden_markov.observed import Lexicon, Observed, text_of
from tacenda_lm.hidden_markov.tables import Tables
from tacenda_lm.hidden_markov.tabular import Tabular
from tacenda_lm.hidden_markov.training import EVALUATED, Trainer
from tacenda_lm.hidden_markov.transitions import Features, Flat, Free, TwoLevel
from tacenda_lm.sequences import Ids, Offsets

__all__ = ["fit_vlhmm"]

_LEAST = 0.02  # of the learning rate, at the end
_STEPS, _FEW = 50, 256  # of an epoch at least, unless so few words are left to each
_ELSEWHERE = "threads", "device"  # may differ where a fit is gone on with
_WARM = 100  # steps at most before the learning rate is what it says, and half an epoch


def fit_vlhmm(
    config: VLHMMConfig,
    corpus: Corpus,
    valid: Corpus | None,
    checkpoints: Path | None,
    resume: Resume,
) -> tuple[Tables, History]:
    """The whole fit; with ``checkpoints`` it is saved there and gone on from."""
    check_device(config)
    if not corpus.n_tokens:
        raise CorpusError("the text has no tokens; there is nothing to fit on")
    ids, offsets = text_of(corpus)
    held_out = None if valid is None else text_of(valid)
    lexicon = classes_of(config, corpus, ids)
    batch = min(config.batch, max(_FEW, len(ids) // _STEPS))
    texts = (ids, offsets, batch), (*(held_out or (ids[:0], offsets[:1])), EVALUATED)
    pairs = (min(size, _n_pairs(text, cuts, lexicon)) for text, cuts, size in texts)
    check_memory(config, len(lexicon.classes), *pairs)
    network = drawn(config, lexicon, ids, offsets)
    trainer = Trainer(config, network, lexicon, ids, offsets, held_out)
    source = BlockBatches(offsets, batch_size=batch, seed=config.seed)
    rate = config.learning_rate
    falling = Cosine(rate, epochs=max(config.epochs, 1), floor=_LEAST * rate)
    settings = FitSettings(
        epochs=config.epochs,
        learning_rate=WarmUp(falling, max(1, min(_WARM, source.n_batches(0) // 2))),
        evaluate_every=config.evaluate_every,
        patience=None if valid is None else config.patience,
        on_divergence="return",
    )
    made_from = {
        "settings": {k: v for k, v in config.to_dict().items() if k not in _ELSEWHERE},
        "text": fingerprint_arrays((ids, offsets)),
        "valid": None if held_out is None else fingerprint_arrays(held_out),
    }
    history = fit(
        trainer,
        source,
        settings,
        configuration=made_from,
        checkpoints=checkpoints,
        resume=resume if checkpoints is not None else "auto",
    )
    trainer.load_parameters(trainer.parameters())
    return tables_of(network.cpu(), lexicon), history


def classes_of(config: VLHMMConfig, corpus: Corpus, ids: Ids) -> Lexicon:
    """The classes of all words; one for all with ``n_classes=1``."""
    n_types, boundary = len(corpus.vocabulary), corpus.vocabulary.boundary_id
    if config.n_classes == 1:
        return Lexicon.of(np.zeros(n_types, np.int32), 1)
    if config.n_classes > n_types:
        raise ConfigurationError(
            f"VLHMM: n_classes is {config.n_classes}, and the text has only {n_types} different "
            "words: give fewer classes, such as a tenth of the words"
        )
    stream = np.concatenate([np.array([boundary], np.int32), ids])
    classes = word_classes(
        stream, n_types, config.n_classes, boundary=boundary, method=config.classes
    )
    return Lexicon.of(classes, config.n_classes)


def _n_pairs(ids: Ids, offsets: Offsets, lexicon: Lexicon) -> int:
    return len(Observed.of(ids, offsets, lexicon).sources)


def drawn(config: VLHMMConfig, lexicon: Lexicon, ids: Ids, offsets: Offsets) -> Network | Tabular:
    """What predicts words by their frequency, about, whatever came before."""
    counts = np.bincount(ids, minlength=len(lexicon.classes)) + 0.1
    mass = np.bincount(lexicon.classes, counts, minlength=lexicon.n_classes)
    words = np.log(counts / mass[lexicon.classes]).astype(np.float32)
    groups = np.log(np.maximum(mass, 1e-3) / mass.sum()).astype(np.float32)
    generator = torch.Generator().manual_seed(config.seed)
    if config.neural:
        return Network(config, lexicon.order, words, groups, generator)
    seen = Observed.of(ids, offsets, lexicon)
    keys = seen.sources * lexicon.n_classes + seen.targets
    return Tabular(config, lexicon, words, groups, keys, generator)


@torch.no_grad()
def tables_of(network: Network | Tabular, lexicon: Lexicon) -> Tables:
    """What was learnt, as probabilities and vectors."""
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
    store = BlockStore(transitions, network.classes, network.k)
    return Tables(lexicon, emissions, found.log_starts.exp().numpy(), store)


def _free_tables(network: Tabular, lexicon: Lexicon) -> Tables:
    found, keys = network(None), network.keys
    sources, targets = np.divmod(keys, lexicon.n_classes)
    blocks = network.log_blocks(found.kept, sources, targets).exp().numpy()
    transitions = Free(blocks, keys, found.log_classes.exp().numpy())
    store = BlockStore(transitions, network.classes, network.k)
    emissions, starts = found.log_emissions.exp().numpy(), found.log_starts.exp().numpy()
    return Tables(lexicon, emissions, starts, store)
