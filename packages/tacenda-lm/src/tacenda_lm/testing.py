"""`check_model`: one call in a test checks that a language model keeps every promise of the contract.

    from tacenda_lm.testing import check_model

    def test_my_model_conforms():
        check_model(lambda: MyModel(width=8))

It checks ``fit``, ``start``, ``null``, ``advance``, ``log_probs``, ``log_prob``, ``score_corpus``, ``score_from`` and
``distributions``; that every distribution sums to one; threads and forked processes; saving and loading; and that wrong
arguments are refused. Log-probabilities are natural; words are ids of ``model.vocabulary``. The message of an
AssertionError says which promise is broken, with and without pytest.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Container
from functools import partial, reduce
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.corpus import Corpus
from tacenda.errors import DataError, NotFittedError, TacendaError
from tacenda.testing.models import (
    Sentences,
    assert_refuses,
    check_estimator,
    refusal_of,
    sample_sentences,
)
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
    assert model.vocabulary.fingerprint == corpus.vocabulary.fingerprint, (
        "the vocabulary of the fitted model differs from that of the corpus"
    )
    assert model.fitted_on.get("n_tokens") == corpus.n_tokens, (
        'fitted_on["n_tokens"] is not the number of tokens of the corpus'
    )
    scores = model.score_corpus(corpus.ids, corpus.offsets)
    _check_scores("score_corpus", scores, corpus.n_tokens)
    assert scores.mean() > 0.05 - np.log(len(model.vocabulary)), (
        "the model gives the text that it was fitted to no higher probability than a uniform guess"
    )
    _check_states(model, uses_context)
    _check_distributions(model, close, normalization)
    _check_texts(model, close)
    _check_surprisal_table(model, atol)
    _check_ownership(model)
    _check_refusals(model, make_model)
    _check_fits(model, make_model, close, normalization)


def sample_text() -> Sentences:
    """Return the sentences to which models are fitted; ``<unk>`` is written in some of them."""
    sentences = sample_sentences()
    sentences[7][2] = sentences[20][0] = "<unk>"
    return sentences


def sample_sequences(model: Any) -> list[list[int]]:
    """Return sequences of ids: some are empty, have one word, ``<unk>``, or ``</s>`` inside; one is of the text."""
    words, vocabulary = _list_known_words(model), model.vocabulary
    end, unknown = vocabulary.boundary_id, vocabulary.unknown_id
    of_text = vocabulary.encode(sample_text()[0]).tolist()
    with_marks = [[unknown, words[1], unknown], [*words[:2], end, words[0], end], [end], [end, end]]
    return [[*words, end], [], [words[3]], *with_marks, [*of_text, end], words[::-1]]


def pack(sequences: list[list[int]]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return sequences as ``score_corpus`` takes them: ids (tokens,) and offsets (sequences + 1,)."""
    ids = np.array(list(chain.from_iterable(sequences)), np.int32)
    return ids, np.cumsum([0, *map(len, sequences)], dtype=np.int64)


def _list_known_words(model: Any) -> list[int]:
    """Return the ids of the first nine words that are not marks."""
    words = [word for word in model.vocabulary.words if not word.startswith("<")]
    return [model.vocabulary.id_of(word) for word in words[:9]]


def _advance_over(model: Any, words: list[int]) -> Any:
    """Return the state after some words from the start."""
    return reduce(model.advance, words, model.start())


def _sample_states(model: Any) -> list[Any]:
    """Return the states of ``start`` and ``null``, and those after the `sample_sequences`."""
    after = [_advance_over(model, sequence) for sequence in sample_sequences(model)]
    return [model.start(), model.null(), *after]


def _apply(model: Any) -> list[Any]:
    """Return the scores and distributions that a host needs."""
    scores = model.score_corpus(*pack(sample_sequences(model)))
    return [scores, model.log_probs(_sample_states(model))]


def _check_scores(method: str, scores: Any, n: int) -> None:
    """Check that ``method`` returns an array of ``n`` log-probabilities."""
    assert isinstance(scores, np.ndarray), f"{method} does not return a NumPy array"
    assert scores.dtype == np.float64, f"{method} returns {scores.dtype}, not float64"
    assert scores.shape == (n,), f"{method} does not return one score for each word"
    assert not np.isnan(scores).any(), f"{method} returns NaN"


def _check_states(model: Any, uses_context: bool) -> None:
    """Check that states are values, which no function changes."""
    for state, same in zip(_sample_states(model), _sample_states(model), strict=True):
        assert state == same, "two states after the same words are not equal"
        assert hash(state) == hash(same), "two equal states have different hashes"
        copies_equal = copy.copy(state) == copy.deepcopy(state) == state
        assert copies_equal, "a copy of a state is not equal to the state"
    state = model.start()
    before, number = model.log_probs([state]), hash(state)
    for word in (*_list_known_words(model)[:5], model.vocabulary.boundary_id):
        model.advance(state, word)
    error = "advance changes the state it is given"
    assert hash(state) == number, error
    np.testing.assert_array_equal(model.log_probs([state]), before, err_msg=error)
    if uses_context:
        states = [model.advance(model.start(), word) for word in _list_known_words(model)]
        rows = model.log_probs(states)
        assert not np.allclose(rows, rows[0], atol=1e-3), (
            "the next word does not depend on the word before: give uses_context=False for a model without context"
        )


def _check_distributions(model: Any, close: Callable[..., None], normalization: float) -> None:
    """Check that distributions sum to one, are independent of each other, and agree with ``log_prob``."""
    n_types, states = len(model.vocabulary), _sample_states(model)
    rows = model.log_probs(states)
    after_each_word = [model.advance(model.start(), word) for word in range(n_types)]
    for found, n in ((rows, len(states)), (model.log_probs(after_each_word), n_types)):
        assert isinstance(found, np.ndarray), "log_probs does not return a NumPy array"
        assert found.shape == (n, n_types), (
            "log_probs does not return one row for each state and one column for each type"
        )
        is_float = found.dtype in (np.float32, np.float64)
        assert is_float, f"log_probs returns {found.dtype}, not float32 or float64"
        sums = np.exp(found.astype(np.float64)).sum(axis=1)
        error = "a distribution of log_probs does not sum to one"
        np.testing.assert_allclose(sums, 1, rtol=0, atol=normalization, err_msg=error)
    error = "a row of log_probs changes with the other states in the call"
    for i, state in enumerate(states):
        close(model.log_probs([state])[0], rows[i], err_msg=error)
    close(model.log_probs(states[::-1])[::-1], rows, err_msg=error)
    for word in (0, *_list_known_words(model), model.vocabulary.unknown_id):
        found = model.log_prob(states, np.full(len(states), word))
        _check_scores("log_prob", found, len(states))
        close(found, rows[:, word], err_msg="log_prob differs from log_probs")
    no_rows = model.log_probs([]).shape == (0, n_types)
    assert no_rows, "log_probs of no states does not have the shape (0, types)"
    no_scores = model.log_prob([], np.array([], np.int64)).shape == (0,)
    assert no_scores, "log_prob of no states does not have the shape (0,)"


def _check_texts(model: Any, close: Callable[..., None]) -> None:
    """Check that every way to score a text gives the scores of its words one after the other."""
    sequences = sample_sequences(model)
    ids, offsets = pack(sequences)
    scores = model.score_corpus(ids, offsets)
    _check_scores("score_corpus", scores, len(ids))
    expected = []
    for sequence in sequences:
        states = accumulate(sequence, model.advance, initial=model.start())
        for state, word in zip(states, sequence, strict=False):
            expected.append(float(model.log_prob([state], np.array([word]))[0]))
    close(scores, expected, err_msg="score_corpus differs from scoring word by word")
    blocks = list(model.distributions(ids, offsets))
    assert blocks, "distributions yields nothing"
    rows = np.concatenate(blocks)
    one_each = rows.shape == (len(ids), len(model.vocabulary))
    assert one_each, (
        "distributions does not yield one row for each token and one column for each type"
    )
    close(rows[np.arange(len(ids)), ids], scores, err_msg="distributions differ from score_corpus")
    _check_parts_of_a_stream(model, close)
    _check_independence_of_sequences(model, close)
    for n in (0, 1, 3):
        nothing = pack([[]] * n)
        no_scores = model.score_corpus(*nothing).shape == (0,)
        assert no_scores, f"score_corpus of {n} empty sequences does not have the shape (0,)"
        n_rows = sum(map(len, model.distributions(*nothing)))
        assert not n_rows, f"distributions of {n} empty sequences has rows"


def _check_parts_of_a_stream(model: Any, close: Callable[..., None]) -> None:
    """Check that a sequence can be scored in two parts, cut anywhere."""
    words = _list_known_words(model)
    whole = [*words, model.vocabulary.boundary_id, *words[::-1]]
    expected = model.score_corpus(*pack([whole]))
    next_words = model.log_probs([_advance_over(model, whole)])
    for cut in (0, 3, len(words) + 1, len(whole)):
        found, last = [], model.start()
        for part in (whole[:cut], whole[cut:]):
            result = model.score_from(last, np.array(part, np.int32))
            is_pair = isinstance(result, tuple) and len(result) == 2
            assert is_pair, "score_from does not return a pair, scores and a state"
            scores, last = result
            _check_scores("score_from", scores, len(part))
            found.append(scores)
        error = "score_from: a stream in parts differs from the whole"
        close(np.concatenate(found), expected, err_msg=error)
        error = "score_from returns a state that differs from that of advance"
        close(model.log_probs([last]), next_words, err_msg=error)


def _check_independence_of_sequences(model: Any, close: Callable[..., None]) -> None:
    """Check that the scores of a sequence do not depend on the others, wherever a model cuts a text into blocks."""
    words, rng = _list_known_words(model), np.random.default_rng(0)
    sequences = sample_sequences(model)
    sequences += [rng.choice(words, n).tolist() for n in range(6) for _ in range(5)]
    alone = [model.score_corpus(*pack([sequence])) for sequence in sequences]
    error = "score_corpus: the scores of a sequence change with the other sequences in the call"
    n = len(sequences)
    for order in (range(n), rng.integers(0, n, 3_000).tolist()):
        together = model.score_corpus(*pack([sequences[i] for i in order]))
        close(together, np.concatenate([alone[i] for i in order]), err_msg=error)
    long = model.score_corpus(*pack([words[:2], (words * 3_000)[:3_000], [], words[:1]]))
    assert np.isfinite(long).all(), "score_corpus of a sequence of 3,000 words is not finite"
    for first in (long[2:3], long[-1:]):  # of the second and of the last sequence
        close(first, model.score_corpus(*pack([words[:1]])), err_msg=error)


def _check_surprisal_table(model: Any, atol: float) -> None:
    """Check that a word's surprisal is its score, by the chain rule, and for an unknown word its share of its class."""
    vocabulary, shares = model.vocabulary, UnknownWords(model.vocabulary)
    known = [vocabulary.words[i] for i in _list_known_words(model)]
    lines = [[*known[:3], "never-seen"], [known[3], "never-seen", known[4]]]
    text = "\n".join(map(" ".join, lines))
    table = surprisal_table(model, text, tokenizer="whitespace", context="sentence")
    ids = [[*vocabulary.encode(line), vocabulary.boundary_id] for line in lines]
    scores = np.split(model.score_corpus(*pack(ids)), [len(ids[0])])
    expected = np.concatenate([of_line[:-1] for of_line in scores])
    expected += shares.log_shares(chain.from_iterable(lines))
    found = np.asarray(table["surprisal"], float)
    error = "surprisal_table differs from score_corpus"
    np.testing.assert_allclose(found, -expected / np.log(2), atol=atol / np.log(2), err_msg=error)
    is_known = np.asarray(table["known"]).tolist()
    assert is_known == [True] * 3 + [False, True, False, True], (
        "surprisal_table does not tell the words of the vocabulary from others"
    )


def _check_ownership(model: Any) -> None:
    """Check that arguments are not changed, and that the caller may change results."""
    ids, offsets = pack(sample_sequences(model))
    ids_before, offsets_before, states = ids.copy(), offsets.copy(), _sample_states(model)
    expected = model.score_corpus(ids, offsets).copy(), model.log_probs(states).copy()
    list(model.distributions(ids, offsets))
    error = "score_corpus or distributions changes its arguments"
    np.testing.assert_array_equal(ids, ids_before, err_msg=error)
    np.testing.assert_array_equal(offsets, offsets_before, err_msg=error)
    scores, rows = model.score_corpus(ids, offsets), model.log_probs(states)
    for method, result in (("score_corpus", scores), ("log_probs", rows)):
        assert result.flags.writeable, f"{method} returns an array that the caller cannot change"
        result.fill(np.nan)
    error = "a result that the caller changed is returned again: return a new array from each call"
    np.testing.assert_array_equal(model.score_corpus(ids, offsets), expected[0], err_msg=error)
    np.testing.assert_array_equal(model.log_probs(states), expected[1], err_msg=error)


def _check_refusals(model: Any, make_model: Callable[[], Any]) -> None:
    """Check that unfitted models, ids outside the vocabulary and wrong offsets raise errors of Tacenda."""
    unfitted = make_model()
    acts: dict[str, Callable[[], Any]] = {
        "start": lambda: unfitted.start(),
        "vocabulary": lambda: unfitted.vocabulary,
        "score_corpus": lambda: unfitted.score_corpus(*pack([[0]])),
    }
    for name, act in acts.items():
        assert_refuses(act, NotFittedError, f"{name} before fit")
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
    """Check that a fit depends on the text only, not on its form or earlier fits, and measures held-out text."""
    sentences, corpus = sample_text(), Corpus.from_sentences(sample_text())
    ids = pack(sample_sequences(model))

    def check_same(other: Any, error: str) -> None:
        assert other.vocabulary.words == model.vocabulary.words, error
        close(other.score_corpus(*ids), model.score_corpus(*ids), err_msg=error)

    string = "\n".join(map(" ".join, sentences))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text.txt")
        path.write_text(string, encoding="utf8")
        for text in (path, string, iter(sentences)):
            error = f"fitting to a {type(text).__name__} gives another model than a Corpus"
            check_same(make_model().fit(text), error)
    again = make_model().fit(Corpus.from_sentences(sample_sentences(seed=1))).fit(corpus)
    check_same(again, "fitting again does not forget the first text")
    assert getattr(again, "n_fits", 1), (
        "fit does not raise n_fits, so that a mixture does not notice it: implement _fit instead of fit"
    )

    held_out = Corpus.from_sentences(sample_sentences(60, seed=2), vocabulary=corpus.vocabulary)
    figures = make_model().fit(corpus, valid=held_out).figures
    perplexities = [figure for figure in figures if figure.get("measure") == "perplexity"]
    assert perplexities, (
        "fit(corpus, valid) does not note the perplexity of the held-out text in figures"
    )
    for figure in perplexities:
        assert figure.get("protocol"), 'a figure has no "protocol", which says how it was measured'
        value = figure.get("value", np.nan)
        assert 1 <= value < np.inf, f"a perplexity of held-out text is {value}"
    # one word may be fitted to, or refused with an error of Tacenda
    for one_word in ([["a"]], [["a", "a"], ["a"]]):
        small, few = make_model(), Corpus.from_sentences(one_word)
        if refusal_of(partial(small.fit, few), TacendaError, "fitting one word") is None:
            row = small.log_probs([small.start()]).astype(np.float64)
            is_normalized = abs(np.exp(row).sum() - 1) <= normalization
            assert is_normalized, "a distribution of a model fitted to one word does not sum to one"
