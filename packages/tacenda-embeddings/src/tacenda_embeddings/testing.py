"""Conformance of a token-embedding model: one call, which raises AssertionError if it breaks a promise.

    from tacenda_embeddings.testing import check_embedder

    def test_my_embedder():
        check_embedder(lambda: MyEmbedder(width=8))

It checks ``fit``, ``transform``, ``width`` and ``vocabulary``, also with threads and forked processes and after saving
and loading. It checks the errors too: before ``fit`` everything raises NotFittedError, and ``transform`` raises
CorpusError for a sentence that is not a list of strings, as ``vocabulary.encode`` does. Install
``tacenda-embeddings[testing]``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import Any

import numpy as np

from tacenda.corpus import Corpus
from tacenda.corpus.text import Text, as_corpus
from tacenda.errors import CorpusError, NotFittedError, TacendaError
from tacenda.testing.models import (
    STRANGE,
    Sentences,
    assert_equal,
    assert_refuses,
    check_estimator,
    refusal_of,
    sample_sentences,
)
from tacenda.vocabulary import Vocabulary


def check_embedder(
    make_model: Callable[[], Any],
    corpus: Text | None = None,
    *,
    rtol: float = 1e-4,
    may_hold_nan: Container[str] = (),
    fork_seconds: float = 60.0,
) -> Any:
    """Fit an embedder and check the promises that every embedder makes.

    Parameters
    ----------
    make_model
        Returns a new unfitted model, small enough to fit in a second.
    corpus
        The text to fit to, if the default of 300 short sentences does not suit the model.
    rtol
        Largest allowed difference, relative to the largest value of the output, of numbers that are computed in a
        different order: in another batch, or by another fit.
    may_hold_nan, fork_seconds
        See `tacenda.testing.models.check_estimator`.

    Returns
    -------
    The fitted model.

    Raises
    ------
    AssertionError
        A promise is broken; the message names it.
    CorpusError
        The corpus has fewer than four words.
    """
    corpus = as_corpus(sample_sentences() if corpus is None else corpus)
    sentences = _choose_sentences(corpus)

    def apply(model: Any) -> list[Any]:
        return _transform(model, [list(sentence) for sentence in sentences])

    first = make_model()
    assert_refuses(partial(_transform, first, [["a"]]), NotFittedError, "transform before fit")
    assert first.fit(corpus) is first, "fit does not return the model"
    width = getattr(first, "width", None)
    assert isinstance(width, int), f"width is {width!r}, not the number of columns"
    assert width > 0, "the vectors have no column"
    assert isinstance(getattr(first, "vocabulary", None), Vocabulary), (
        "it has no vocabulary, which commands and pipelines need: set it to the corpus's, a tacenda.Vocabulary"
    )
    _check_one_word(make_model)
    assert getattr(first, "fitted_on", None), "fit sets fitted_on, such as {'tokens': 12345}"
    expected = apply(first)
    atol = rtol * max(float(np.abs(array).max(initial=0)) for array in expected)
    model = check_estimator(
        make_model, corpus, apply, atol=atol, may_hold_nan=may_hold_nan, fork_seconds=fork_seconds
    )
    assert_equal(apply(model), expected, "fitting is not deterministic", atol)
    other = Corpus.from_sentences(sample_sentences(seed=1))
    again = make_model().fit(other).fit(corpus)
    assert_equal(apply(again), expected, "fitting again does not forget the first text", atol)
    _check_transform(model, sentences, atol)
    for sentence in ("hello world", ["a", 1], ["a", None], [b"a"], ["a", ["b"]]):
        act = partial(_transform, model, [["a"], sentence])
        said = f"transform([{sentence!r}]), where a sentence is to be a list of strings,"
        assert_refuses(act, CorpusError, said)
    return model


def _transform(model: Any, sentences: Any) -> list[Any]:
    """Return the vectors as a list, because a lazy ``transform`` does its work only when it is read."""
    arrays = model.transform(sentences)
    assert isinstance(arrays, Iterable), f"transform returns a {type(arrays).__name__}, no arrays"
    return list(arrays)


def _choose_sentences(corpus: Corpus) -> Sentences:
    """Return sentences to transform: with known words, with unknown words, of one word, and empty."""
    vocabulary = corpus.vocabulary
    words = [word for word in vocabulary.words if not vocabulary.is_reserved(word)][:40]
    if len(words) < 4:
        raise CorpusError(f"the corpus has {len(words)} words: give one of at least 4")
    return [words[:9], [], [words[3]], ["unseen", words[1], "unseen"], words[::-1]]


def _check_one_word(make_model: Callable[[], Any]) -> None:
    """Check that a model can be fitted to a text of one word, or refuses it with an error of Tacenda."""
    for sentences in ([["a"]], [["a", "a"], ["a"]]):
        corpus, model = Corpus.from_sentences(sentences), make_model()
        if refusal_of(partial(model.fit, corpus), TacendaError, "fitting one word") is None:
            _check_well_formed(model, [["a"], ["b", "a"]])


def _check_transform(model: Any, sentences: Sentences, atol: float) -> None:
    """Check that every sentence has its own finite float32 rows, which do not depend on the other sentences."""
    assert not _transform(model, []), "transform of no sentences returns arrays"
    words, copies = sentences[0], [list(sentence) for sentence in sentences]
    _check_well_formed(model, copies)
    assert copies == sentences, "transform changes its input"
    _check_well_formed(model, [[], [], []])
    _check_well_formed(model, [["unseen"], ["not", "in", "the", "text"]])
    _check_well_formed(model, [STRANGE, *([token] for token in STRANGE)])
    _check_well_formed(model, [words, (words * 20_000)[:20_000], [], words[:1]])

    expected = [array.copy() for array in model.transform(sentences)]
    found = model.transform(tuple(sentence) for sentence in sentences)
    assert_equal(found, expected, "a generator of tuples gets other vectors than a list of lists")
    arrays = _transform(model, sentences)
    assert_equal(arrays, expected, "a second call returns other vectors")
    for array in arrays:
        array.fill(np.nan)
    fault = "an array that the caller changed is returned again: return new arrays from each call"
    assert_equal(model.transform(sentences), expected, fault)
    alone = [array.tobytes() for array in model.transform([[word] for word in words])]
    assert len(set(alone)) > 1, "every word has the same vector"

    # so many that wherever a model cuts a long text into blocks, some sentence begins there
    texts = [sentence[:n] for sentence in (*sentences, words[::-1]) for n in (*range(5), 99)]
    separate = [_transform(model, [text])[0] for text in texts]
    order = np.random.default_rng(0).integers(0, len(texts), 3_000).tolist()
    together = model.transform([texts[i] for i in order])
    fault = "the vectors of a sentence depend on other sentences"
    assert_equal(together, [separate[i] for i in order], fault, atol)


def _check_well_formed(model: Any, sentences: Sentences) -> None:
    """Check that every sentence has a finite, contiguous float32 array (tokens, width)."""
    arrays = _transform(model, sentences)
    assert len(arrays) == len(sentences), f"{len(arrays)} arrays for {len(sentences)} sentences"
    for array, sentence in zip(arrays, sentences, strict=True):
        assert isinstance(array, np.ndarray), f"the vectors are a {type(array).__name__}, no array"
        assert array.dtype == np.float32, f"the vectors are {array.dtype}, not float32"
        assert array.shape == (len(sentence), model.width), f"shape {array.shape}"
        assert array.flags.c_contiguous, "the vectors are not C-contiguous"
        assert np.isfinite(array).all(), "a vector is not finite"
