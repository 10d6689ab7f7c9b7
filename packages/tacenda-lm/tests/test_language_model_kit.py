"""The conformance kit passes a sound language model, and each way to be unsound fails the test made for it."""

from contextlib import nullcontext

import numpy as np
import pytest

from tacenda.arrays import Array, Float64, take
from tacenda.corpus.text import as_corpus
from tacenda.errors import DataError, NotFittedError
from tacenda.estimator import Estimator
from tacenda.fitting import History
from tacenda.offsets import check_offsets
from tacenda.vocabulary import Vocabulary
from tacenda_lm.testing import (
    _check_surprisal_table,
    check_model,
    pack,
    sample_sequences,
    sample_text,
)


class Bigram(Estimator):
    """Counts of word pairs, one added to each; a state is the id of the last word."""

    kind, name, distribution = "language_models", "bigram", "<kit>"

    def __init__(self):
        self.table = None
        self.fitted_on, self.figures = {}, []

    def fit(self, text, valid=None):
        corpus = as_corpus(text)
        self.vocabulary_ = corpus.vocabulary
        table = np.ones((len(corpus.vocabulary),) * 2)
        stream = np.concatenate(list(corpus.stream()))
        np.add.at(table, (stream, np.roll(stream, -1)), 1)
        self.table = np.log(table / table.sum(axis=1, keepdims=True))
        self.fitted_on, self.figures = {"n_tokens": corpus.n_tokens}, []
        if valid is not None:
            value = float(np.exp(-self.score_corpus(valid.ids, valid.offsets).mean()))
            figure = {"measure": "perplexity", "value": value, "protocol": "without ends"}
            self.figures.append(figure)
        return self

    @property
    def vocabulary(self):
        self.fitted()
        return self.vocabulary_

    def fitted(self):
        if self.table is None:
            raise NotFittedError("the bigram model is not fitted: call fit")

    def check(self, words):
        if any(not 0 <= word < len(self.table) for word in words):
            raise DataError("an id is not in the vocabulary")

    def start(self):
        self.fitted()
        return self.vocabulary_.boundary_id

    null = start

    def advance(self, state, word):
        self.check([word])
        return int(word)

    def log_probs(self, states):
        return self.table[np.array(states, np.int64)]

    def log_prob(self, states, words):
        self.check(words)
        return self.log_probs(states)[np.arange(len(states)), words]

    def before(self, ids, offsets):
        self.fitted()
        self.check(ids)
        check_offsets(offsets, len(ids))
        before = np.roll(ids, 1)
        before[offsets[:-1][np.diff(offsets) > 0]] = self.start()
        return before

    def score_corpus(self, ids, offsets):
        return self.table[self.before(ids, offsets), ids]

    def score_from(self, state, ids):
        self.check(ids)
        before = np.array([state, *ids], np.int64)
        return self.table[before[:-1], ids], int(before[-1])

    def distributions(self, ids, offsets):
        yield self.table[self.before(ids, offsets)]

    def config_dict(self):
        return {"vocabulary": self.vocabulary.config_dict()}

    def arrays(self):
        self.fitted()
        return {"table": self.table, **self.vocabulary.arrays()}

    @classmethod
    def from_arrays(cls, config, arrays):
        model = cls()
        model.vocabulary_ = Vocabulary.from_arrays(config["vocabulary"], arrays)
        sizes = {"types": len(model.vocabulary_)}
        model.table = take(arrays, "table", Float64[Array, "types types"], sizes)
        return model


log_prob, log_probs = Bigram.log_prob, Bigram.log_probs
score_corpus, score_from = Bigram.score_corpus, Bigram.score_from


def test_a_sound_language_model_passes():
    check_model(Bigram)


class Sociable(Bigram):
    """Carries the last word of a sequence into the next."""

    def before(self, ids, offsets):
        before = super().before(ids, offsets)
        inner = offsets[1:-1][np.diff(offsets)[1:] > 0]
        before[inner] = ids[inner - 1]
        return before


class Untrained(Bigram):
    def fit(self, text, valid=None):
        super().fit(text, valid)
        self.table[:] = -np.log(len(self.table))
        return self


class Hoarding(Bigram):
    """Counts the texts it was ever fitted on."""

    def fit(self, text, valid=None):
        old = self.table
        super().fit(text, valid)
        if old is not None:
            self.table = np.roll(self.table, 1, axis=0)
        return self


class Lists(Bigram):
    """States that cannot be keys."""

    def start(self):
        return [super().start()]

    null = start

    def log_probs(self, states):
        return super().log_probs([state[0] for state in states])

    def advance(self, state, word):
        return [super().advance(state[0], word)]


class Crowded(Bigram):
    def score_corpus(self, ids, offsets):
        if len(offsets) == 1:
            raise IndexError
        return super().score_corpus(ids, offsets)


class Possessive(Bigram):
    def log_probs(self, states):
        key = tuple(states)
        cache = self.__dict__.setdefault("cache", {})
        return cache.setdefault(key, super().log_probs(states))


class Lossy(Bigram):
    def arrays(self):
        arrays = super().arrays()
        return {**arrays, "table": arrays["table"].astype(np.float32).astype(np.float64)}


class Trusting(Bigram):
    @classmethod
    def from_arrays(cls, config, arrays):
        model = cls()
        model.vocabulary_ = Vocabulary.from_arrays(config["vocabulary"], arrays)
        model.table = arrays["table"]
        return model


class Frozen(Bigram):
    def score_corpus(self, ids, offsets):
        scores = super().score_corpus(ids, offsets)
        scores.flags.writeable = False
        return scores


class Uncounted(Bigram):
    """Does not count its fits, as a subclass of `LanguageModel` that overrides ``fit``."""

    n_fits = 0


class Valueless(Bigram):
    def fit(self, text, valid=None):
        super().fit(text, valid)
        self.figures = [{"measure": "perplexity", "protocol": "none"}] if valid else []
        return self


def but(**methods):
    """The model with some methods replaced."""
    return type("Unsound", (Bigram,), methods)


@pytest.mark.parametrize(
    ("unsound", "complaint"),
    [
        (but(log_probs=lambda m, states: log_probs(m, states) + 1e-3), "does not sum to one"),
        (Sociable, "score_corpus differs from scoring word by word"),
        (
            but(score_from=lambda m, state, ids: score_from(m, m.start(), ids)),
            "a stream in parts differs from the whole",
        ),
        (
            but(log_probs=lambda m, states: log_probs(m, [0] * len(states))),
            "does not depend on the word before",
        ),
        (Untrained, "no higher probability than a uniform guess"),
        (Hoarding, "fitting again does not forget the first text"),
        (but(log_prob=lambda *given: log_prob(*given) - 0.01), "log_prob differs from log_probs"),
        (
            but(score_corpus=lambda *given: score_corpus(*given).astype(np.float32)),
            "score_corpus returns float32, not float64",
        ),
        (
            but(log_prob=lambda *given: log_prob(*given).tolist()),
            "log_prob does not return a NumPy array",
        ),
        (but(score_from=lambda *given: score_from(*given)[0]), "score_from does not return a pair"),
        (
            but(score_corpus=lambda *given: score_corpus(*given) * np.nan),
            "score_corpus returns NaN",
        ),
        (Lists, "unhashable"),
        (but(check=lambda *_: None), "with the id -1, which is no word, raises no DataError"),
        (Crowded, "IndexError"),
        (Possessive, "a result that the caller changed is returned again"),
        (Lossy, "not equal"),
        (Trusting, "loading with the array 'table'"),
        (Frozen, "score_corpus returns an array that the caller cannot change"),
        (
            but(log_probs=lambda m, states: log_probs(m, states)[: max(len(states) - 1, 1)]),
            "one row for each state",
        ),
        (but(distributions=lambda *_: iter(())), "distributions yields nothing"),
        (
            but(fit=lambda m, text, valid=None: Bigram.fit(m, text)),
            "the perplexity of the held-out text",
        ),
        (Valueless, "perplexity of held-out text is nan"),
    ],
)
def test_an_unsound_language_model_is_told_what_is_wrong(unsound, complaint):
    with pytest.raises((AssertionError, TypeError, ValueError, IndexError)) as caught:
        check_model(unsound)
    assert complaint in repr(caught.value)


def test_the_sequences_hold_what_they_promise():
    model = Bigram().fit(sample_text())
    ids, offsets = pack(sample_sequences(model))
    assert model.vocabulary.unknown_id in ids
    assert model.vocabulary.boundary_id in ids
    assert 0 in np.diff(offsets)
    assert model.vocabulary.counts[model.vocabulary.unknown_id] == 2, "<unk> is written in the text"


def test_figures_of_the_course_of_a_fit_are_no_perplexities():
    class Recorded(Bigram):
        def fit(self, text, valid=None):
            super().fit(text, valid)
            self.figures.insert(0, History().figure())
            return self

    check_model(Recorded)


@pytest.mark.parametrize(
    ("error", "outcome"), [(0.9e-4, nullcontext()), (1.1e-4, pytest.raises(AssertionError))]
)
def test_the_tolerance_of_surprisal_is_in_nats(error, outcome):
    class Drifting(Bigram):
        n_calls = 0

        def score_corpus(self, ids, offsets):
            self.n_calls += 1
            return super().score_corpus(ids, offsets) + (error if self.n_calls > 1 else 0)

    model = Drifting().fit(sample_text())
    with outcome:
        _check_surprisal_table(model, 1e-4)
