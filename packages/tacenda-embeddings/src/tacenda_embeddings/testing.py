"""Conformance of a token-embedding model: subclass `EmbedderTests` in a test file and say which.

    from tacenda_embeddings.testing import EmbedderTests

    class TestMyEmbedder(EmbedderTests):
        def make_model(self):
            return MyEmbedder(width=8)

About thirty tests are inherited: what ``fit``, ``transform`` and ``width`` promise to every host,
threads and forked processes, the way to disk and back, and what is refused. Needs pytest: install
``tacenda-embeddings[testing]``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacenda.corpus import Corpus
from tacenda.errors import CorpusError, NotFittedError, TacendaError
from tacenda.testing.models import ModelTests, assert_refuses, refusal_of
from tacenda.testing.samples import STRANGE, Sentences, sample_sentences

__all__ = ["EmbedderTests"]


class EmbedderTests(ModelTests):
    """Inherit, and define ``make_model``.

    Attributes
    ----------
    rtol
        How far, relative to the largest value of the output, results may differ where the same
        numbers are computed in another order: in another batch, or by another fit.
    may_hold_nan, fork_seconds
        See `tacenda.testing.models.ModelTests`.
    """

    kind = "embedders"
    rtol: float = 1e-4

    def training_data(self) -> Corpus:
        """Return `corpus`."""
        return self.corpus()

    def corpus(self) -> Corpus:
        """Return the text to fit the model to; override it if the default does not suit the model."""
        return Corpus.from_sentences(sample_sentences())

    def other_corpus(self) -> Corpus:
        """Return another text, for the test that fits twice."""
        return Corpus.from_sentences(sample_sentences(seed=1))

    def applied(self, model: Any) -> list[Any]:
        """Return the vectors of `sentences`."""
        return list(model.transform(self.sentences()))

    def sentences(self) -> Sentences:
        """Return sentences to transform: known words, unknown ones, one word, none."""
        known = self.corpus().vocabulary.words[:40]
        words = [word for word in known if not word.startswith("<")]
        return [words[:9], [], [words[3]], ["unseen", words[1], "unseen"], words[::-1]]

    # -- what it is --------------------------------------------------------------------------------

    def test_fit_returns_the_model_and_notes_the_text(self) -> None:
        model = self.make_model()
        assert model.fit(self.corpus()) is model
        assert model.fitted_on, "fit sets fitted_on, such as {'tokens': 12345}"

    def test_fitting_again_forgets_the_first_text(self, model: Any) -> None:
        again = self.make_model().fit(self.other_corpus()).fit(self.corpus())
        self.assert_close(again.transform(self.sentences()), model.transform(self.sentences()))

    def test_fitting_is_deterministic(self, model: Any) -> None:
        other = self.make_model().fit(self.corpus())
        self.assert_close(other.transform(self.sentences()), model.transform(self.sentences()))

    # -- transform ---------------------------------------------------------------------------------

    def test_one_float32_row_per_token(self, model: Any) -> None:
        assert isinstance(model.width, int)
        assert model.width > 0
        self.assert_well_formed(model, self.sentences())

    def test_no_sentences(self, model: Any) -> None:
        assert list(model.transform([])) == []

    def test_only_empty_sentences(self, model: Any) -> None:
        self.assert_well_formed(model, [[], [], []])

    def test_only_unknown_words(self, model: Any) -> None:
        self.assert_well_formed(model, [["unseen"], ["not", "in", "the", "text"]])

    def test_strange_tokens(self, model: Any) -> None:
        self.assert_well_formed(model, [STRANGE, *([token] for token in STRANGE)])

    def test_a_very_long_sentence_among_short_ones(self, model: Any) -> None:
        words = self.sentences()[0]
        self.assert_well_formed(model, [words, (words * 20_000)[:20_000], [], words[:1]])

    def test_takes_any_iterable_of_sequences(self, model: Any) -> None:
        expected = model.transform(self.sentences())
        self.assert_equal(model.transform(tuple(s) for s in self.sentences()), expected)

    def test_is_deterministic(self, model: Any) -> None:
        first = model.transform(self.sentences())
        self.assert_equal(model.transform(self.sentences()), first)

    def test_a_sentence_does_not_depend_on_its_company(self, model: Any) -> None:
        sentences = self.sentences()
        together = model.transform(sentences)
        alone = [model.transform([sentence])[0] for sentence in sentences]
        self.assert_close(together, alone)
        self.assert_close(model.transform(sentences[::-1])[::-1], alone)

    def test_many_short_sentences_do_not_depend_on_each_other(self, model: Any) -> None:
        """Wherever a model cuts a long text into blocks, some sentence begins there."""
        some = [sentence[:n] for sentence in self.sentences() for n in range(5)]
        alone = [model.transform([sentence])[0] for sentence in some]
        order = np.random.default_rng(0).integers(0, len(some), 3_000).tolist()
        together = model.transform([some[i] for i in order])
        self.assert_close(together, [alone[i] for i in order])

    def test_known_words_differ(self, model: Any) -> None:
        vectors = model.transform([[word] for word in self.sentences()[0]])
        assert len({array.tobytes() for array in vectors}) > 1, "every word has the same vector"

    def test_leaves_its_input_alone(self, model: Any) -> None:
        sentences = self.sentences()
        model.transform(sentences)
        assert sentences == self.sentences()

    def test_results_belong_to_the_caller(self, model: Any) -> None:
        before = [array.copy() for array in model.transform(self.sentences())]
        for array in model.transform(self.sentences()):
            array.fill(np.nan)
        self.assert_equal(model.transform(self.sentences()), before)

    # -- what it refuses ---------------------------------------------------------------------------

    def test_an_unfitted_model_says_so(self, tmp_path: Path) -> None:
        model = self.make_model()
        assert_refuses(lambda: model.transform([["a"]]), NotFittedError, "transform before fit")
        assert_refuses(lambda: model.save(tmp_path / "m"), NotFittedError, "save before fit")
        assert not (tmp_path / "m").exists()

    def test_a_sentence_that_is_no_list_of_strings_is_refused(self, model: Any) -> None:
        bad: tuple[Any, ...] = ("hello world", ["a", 1], ["a", None], [b"a"])
        for sentence in bad:
            what = f"transform([{sentence!r}])"
            assert_refuses(partial(model.transform, [["a"], sentence]), CorpusError, what)

    @pytest.mark.parametrize("sentences", [[["a"]], [["a", "a"], ["a"]]])
    def test_a_text_of_one_word_is_served_or_refused_clearly(self, sentences: Sentences) -> None:
        corpus = Corpus.from_sentences(sentences)
        model = self.make_model()
        refusal = refusal_of(lambda: model.fit(corpus), TacendaError, "fitting one word")
        if refusal is None:
            self.assert_well_formed(model, [["a"], ["b", "a"]])

    # -- comparisons -------------------------------------------------------------------------------

    def assert_well_formed(self, model: Any, sentences: Sentences) -> None:
        """Expect one finite, contiguous float32 array (tokens, width) for each sentence."""
        arrays = list(model.transform(sentences))
        assert len(arrays) == len(sentences)
        for array, sentence in zip(arrays, sentences, strict=True):
            assert isinstance(array, np.ndarray)
            assert array.dtype == np.float32
            assert array.shape == (len(sentence), model.width)
            assert array.flags.c_contiguous
            assert np.isfinite(array).all()

    def assert_same_model(self, model: Any, original: Any) -> None:
        """Compare two models, which must be equal in every respect, bit for bit."""
        assert model.width == original.width
        super().assert_same_model(model, original)

    def assert_close(self, found: Any, expected: Any) -> None:
        """Compare arrays up to ``rtol`` of the largest expected value."""
        scale = max((np.abs(other).max(initial=0.0) for other in expected), default=0.0)
        for array, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(array, other, rtol=0, atol=self.rtol * float(scale))
