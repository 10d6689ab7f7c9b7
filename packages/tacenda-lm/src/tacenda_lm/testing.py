"""Conformance of a language model: one call in a test checks that it keeps every promise of the contract.

    from tacenda_lm.testing import check_model

    def test_my_model_conforms():
        check_model(lambda: MyModel(width=8))

It checks what ``fit``, ``start``, ``advance``, ``log_probs``, ``log_prob``, ``score_corpus``, ``score_from`` and
``distributions`` promise, that every distribution sums to one, threads and forked processes, the way to disk and back,
and what is refused. Log-probabilities are natural; words are ids of ``model.vocabulary``. Needs pytest: install
``tacenda-lm[testing]``.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Container
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.errors import DataError, NotFittedError, TacendaError
from tacenda.testing.models import assert_refuses, check_estimator, refusal_of
from tacenda.testing.samples import Sentences, sample_sentences
from tacenda_lm.surprisal.scoring import surprisal_table
from tacenda_lm.unknown_words import UnknownWords


def check_model(
    make_model: Callable[[], Any],
    *,
    atol: float = 1e-4,
    normalization: float = 1e-5,
    uses_context: bool = True,
    may_hold_nan: Container[str] = (),
    fork_seconds: float = 60.0,
) -> None:
    """Fit a language model, and raise AssertionError if it breaks a promise that every language model makes.

    Parameters
    ----------
    make_model
        Returns a new unfitted model, small enough to fit in a second.
    atol
        How far log-probabilities may differ if the same numbers are computed in a different order.
    normalization
        How far the sum of the probabilities of a distribution may differ from one.
    uses_context
        Whether the next word depends on the word before.
    may_hold_nan, fork_seconds
        See `tacenda.testing.models.check_estimator`.
    """
    corpus = Corpus.from_sentences(sample_text())
    model = check_estimator(
        make_model, corpus, _apply, atol=atol, may_hold_nan=may_hold_nan, fork_seconds=fork_seconds
    )
    close = partial(np.testing.assert_allclose, rtol=0, atol=atol)
    assert model.vocabulary.fingerprint == corpus.vocabulary.fingerprint, "it has other words"
    assert model.fitted_on["n_tokens"] == corpus.n_tokens, "fitted_on says nothing of the text"
    mean = model.score_corpus(corpus.ids, corpus.offsets).mean()
    learned = mean > 0.05 - np.log(len(model.vocabulary))
    assert learned, "it has learned nothing: a text it was fitted on is as probable as any"
    _check_states(model, uses_context)
    _check_distributions(model, close, normalization)
    _check_texts(model, close)
    _check_words_of_a_table(model, atol)
    _check_ownership(model)
    _check_refusals(model, make_model)
    _check_fits(model, make_model, close, normalization)


def sample_text() -> Sentences:
    """Return the sentences to which models are fitted; ``<unk>`` is written in some of them."""
    sentences = sample_sentences()
    sentences[7][2] = sentences[20][0] = "<unk>"
    return sentences


def sample_sequences(model: Any) -> list[list[int]]:
    """Return ids: known words, the unknown one, an end inside, nothing, one word, a sentence of the text."""
    words, vocabulary = _list_known_words(model), model.vocabulary
    end, unknown = vocabulary.boundary_id, vocabulary.unknown_id
    own = vocabulary.encode(sample_text()[0]).tolist()
    strange = [[unknown, words[1], unknown], [*words[:2], end, words[0], end], [end], [end, end]]
    return [[*words, end], [], [words[3]], *strange, [*own, end], words[::-1]]


def pack(sequences: list[list[int]]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return sequences end to end, and their offsets."""
    ids = np.array(list(chain.from_iterable(sequences)), np.int32)
    return ids, np.cumsum([0, *map(len, sequences)], dtype=np.int64)


def _list_known_words(model: Any) -> list[int]:
    """The ids of a few ordinary words."""
    words = [word for word in model.vocabulary.words if not word.startswith("<")]
    return [model.vocabulary.id_of(word) for word in words[:9]]


def _advance_over(model: Any, words: list[int]) -> Any:
    state = model.start()
    for word in words:
        state = model.advance(state, word)
    return state


def _sample_states(model: Any) -> list[Any]:
    """The state at the start, that of no context, and those after `sample_sequences`."""
    after = [_advance_over(model, sequence) for sequence in sample_sequences(model)]
    return [model.start(), model.null(), *after]


def _apply(model: Any) -> list[Any]:
    scores = model.score_corpus(*pack(sample_sequences(model)))
    return [scores, model.log_probs(_sample_states(model))]


def _check_states(model: Any, uses_context: bool) -> None:
    """States are values, which no function changes."""
    for state, same in zip(_sample_states(model), _sample_states(model), strict=True):
        assert state == same, "states made in the same way differ"
        assert hash(state) == hash(same)
        assert copy.copy(state) == copy.deepcopy(state) == state, "a copy of a state differs"
    state = model.start()
    before, number = model.log_probs([state]), hash(state)
    for word in (*_list_known_words(model)[:5], model.vocabulary.boundary_id):
        model.advance(state, word)
    assert hash(state) == number, "advance changes the state it is given"
    np.testing.assert_array_equal(model.log_probs([state]), before)
    if uses_context:
        states = [model.advance(model.start(), word) for word in _list_known_words(model)]
        rows = model.log_probs(states)
        assert not np.allclose(rows, rows[0], atol=1e-3), "the next word depends on no other"


def _check_distributions(model: Any, close: Callable[..., None], normalization: float) -> None:
    """They sum to one after every word, do not depend on their company, and hold what ``log_prob`` says."""
    n_types, states = len(model.vocabulary), _sample_states(model)
    rows = model.log_probs(states)
    after = model.log_probs([model.advance(model.start(), word) for word in range(n_types)])
    for some in (rows, after):
        assert isinstance(some, np.ndarray)
        assert some.shape[1:] == (n_types,)
        assert some.dtype in (np.float32, np.float64)
        sums = np.exp(some.astype(np.float64)).sum(axis=1)
        np.testing.assert_allclose(sums, 1, rtol=0, atol=normalization, err_msg="sums to one")
    for i, state in enumerate(states):
        close(model.log_probs([state])[0], rows[i], err_msg="a state depends on its company")
    close(model.log_probs(states[::-1])[::-1], rows, err_msg="a state depends on its company")
    for word in (0, *_list_known_words(model), model.vocabulary.unknown_id):
        found = model.log_prob(states, np.full(len(states), word))
        assert found.dtype == np.float64
        close(found, rows[:, word], err_msg="log_prob differs from log_probs")
    assert model.log_probs([]).shape == (0, n_types)
    assert model.log_prob([], np.array([], np.int64)).shape == (0,)


def _check_texts(model: Any, close: Callable[..., None]) -> None:
    """A text has the scores of its words one after the other, in parts, in any company, in whole distributions."""
    sequences, words = sample_sequences(model), _list_known_words(model)
    ids, offsets = pack(sequences)
    scores = model.score_corpus(ids, offsets)
    assert scores.dtype == np.float64, "score_corpus returns float64"
    expected: Any = []
    for sequence in sequences:
        state = model.start()
        for word in sequence:
            expected.append(float(model.log_prob([state], np.array([word]))[0]))
            state = model.advance(state, word)
    close(scores, expected, err_msg="score_corpus differs from scoring word by word")
    rows = np.concatenate(list(model.distributions(ids, offsets)))
    assert rows.shape == (len(ids), len(model.vocabulary))
    close(rows[np.arange(len(ids)), ids], scores, err_msg="distributions differ from score_corpus")

    whole = [*words, model.vocabulary.boundary_id, *words[::-1]]
    expected = model.score_corpus(*pack([whole]))
    for cut in (0, 3, len(words) + 1, len(whole)):
        first, state = model.score_from(model.start(), np.array(whole[:cut], np.int32))
        second, last = model.score_from(state, np.array(whole[cut:], np.int32))
        assert first.dtype == second.dtype == np.float64
        found = np.concatenate([first, second])
        close(found, expected, err_msg="score_from: a stream in parts differs from the whole")
        step = model.log_probs([_advance_over(model, whole)])
        close(model.log_probs([last]), step, err_msg="score_from ends in another state")

    # wherever a model cuts a long text into blocks, a sequence begins
    rng = np.random.default_rng(0)
    some = [*sequences, *(rng.choice(words, n).tolist() for n in range(6) for _ in range(5))]
    alone = [model.score_corpus(*pack([sequence])) for sequence in some]
    for order in (range(len(some)), rng.integers(0, len(some), 3_000).tolist()):
        together = model.score_corpus(*pack([some[i] for i in order]))
        expected = np.concatenate([alone[i] for i in order])
        close(together, expected, err_msg="a sequence depends on its company")
    long = model.score_corpus(*pack([words[:2], (words * 3_000)[:3_000], [], words[:1]]))
    assert np.isfinite(long).all()
    close(long[2:3], model.score_corpus(*pack([words[:1]])), err_msg="after a short sequence")
    for n in (0, 1, 3):
        nothing = pack([[]] * n)
        assert model.score_corpus(*nothing).shape == (0,)
        assert sum(map(len, model.distributions(*nothing))) == 0


def _check_words_of_a_table(model: Any, atol: float) -> None:
    """They add up to the scores, by the chain rule, with what an unknown word has of its class."""
    vocabulary, shares = model.vocabulary, UnknownWords(model.vocabulary)
    known = [vocabulary.words[i] for i in _list_known_words(model)]
    lines = [[*known[:3], "never-seen"], [known[3], "never-seen", known[4]]]
    text = "\n".join(map(" ".join, lines))
    table = surprisal_table(model, text, tokenizer="whitespace", context="sentence")
    ids = [[*vocabulary.encode(line), vocabulary.boundary_id] for line in lines]
    scores = np.split(model.score_corpus(*pack(ids)), [len(ids[0])])
    expected = np.concatenate([each[:-1] for each in scores])
    expected += shares.log_shares(chain.from_iterable(lines))
    found = np.asarray(table["surprisal"], float)
    np.testing.assert_allclose(found, -expected / np.log(2), atol=atol)
    assert np.asarray(table["known"]).tolist() == [True] * 3 + [False, True, False, True]


def _check_ownership(model: Any) -> None:
    """Arguments stay as they are, and results belong to the caller."""
    ids, offsets = pack(sample_sequences(model))
    before, states = (ids.copy(), offsets.copy()), _sample_states(model)
    expected = model.score_corpus(ids, offsets).copy(), model.log_probs(states).copy()
    list(model.distributions(ids, offsets))
    np.testing.assert_array_equal(ids, before[0])
    np.testing.assert_array_equal(offsets, before[1])
    model.score_corpus(ids, offsets).fill(np.nan)
    model.log_probs(states).fill(np.nan)
    kept = "a result that the caller changed comes back"
    np.testing.assert_array_equal(model.score_corpus(ids, offsets), expected[0], err_msg=kept)
    np.testing.assert_array_equal(model.log_probs(states), expected[1], err_msg=kept)


def _check_refusals(model: Any, make_model: Callable[[], Any]) -> None:
    unfitted = make_model()
    with tempfile.TemporaryDirectory() as folder:
        acts: dict[str, Callable[[], Any]] = {
            "start": lambda: unfitted.start(),
            "vocabulary": lambda: unfitted.vocabulary,
            "score_corpus": lambda: unfitted.score_corpus(*pack([[0]])),
            "save": lambda: unfitted.save(Path(folder, "m")),
        }
        for name, act in acts.items():
            assert_refuses(act, NotFittedError, f"{name} before fit")
        assert not Path(folder, "m").exists()
    for word in (-1, len(model.vocabulary)):
        ids, start = pack([[0, word]]), model.start()
        acts = {
            "score_corpus": partial(model.score_corpus, *ids),
            "distributions": lambda ids=ids: list(model.distributions(*ids)),  # type: ignore[misc]
            "advance": partial(model.advance, start, word),
            "score_from": partial(model.score_from, start, np.array([word])),
            "log_prob": partial(model.log_prob, [start], np.array([word])),
        }
        for name, act in acts.items():
            assert_refuses(act, DataError, f"{name} with the id {word}, which is no word,")
    wrong = [[], [0], [1, 2], [0, 1], [0, 2, 1, 2], [0, 3], [0, 2**63 - 1, -2, 2]]
    for offsets in wrong:
        score = partial(model.score_corpus, np.zeros(2, np.int32), np.array(offsets, np.int64))
        assert_refuses(score, DataError, f"score_corpus of two ids with offsets {offsets}")


def _check_fits(
    model: Any, make_model: Callable[[], Any], close: Callable[..., None], normalization: float
) -> None:
    """A text in any form gives one model, whatever the model was fitted to before; held-out text gives a figure."""
    sentences, corpus = sample_text(), Corpus.from_sentences(sample_text())
    ids = pack(sample_sequences(model))

    def check_same(other: Any, error: str) -> None:
        assert other.vocabulary.words == model.vocabulary.words
        close(other.score_corpus(*ids), model.score_corpus(*ids), err_msg=error)

    string = "\n".join(map(" ".join, sentences))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text.txt")
        path.write_text(string, encoding="utf8")
        for text in (path, string, iter(sentences)):
            other = make_model()
            assert other.fit(text) is other, "fit returns the model"
            check_same(other, "another form of the text gives another model")
    again = make_model().fit(Corpus.from_sentences(sample_sentences(seed=1))).fit(corpus)
    check_same(again, "fitting again does not forget the first text")

    held_out = Corpus.from_sentences(sample_sentences(60, seed=2), vocabulary=corpus.vocabulary)
    figures = make_model().fit(corpus, valid=held_out).figures
    figures = [each for each in figures if each["measure"] == "perplexity"]
    assert figures, "fit(corpus, valid) notes the perplexity of the held-out text in figures"
    for figure in figures:
        assert figure["protocol"], "a figure says how it was measured"
        assert 1 <= figure["value"] < np.inf
    for one_word in ([["a"]], [["a", "a"], ["a"]]):  # served, or refused in a sentence
        small, few = make_model(), Corpus.from_sentences(one_word)
        if refusal_of(partial(small.fit, few), TacendaError, "fitting one word") is None:
            row = small.log_probs([small.start()]).astype(np.float64)
            assert abs(np.exp(row).sum() - 1) <= normalization
