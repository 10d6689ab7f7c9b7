"""Conformance of a token-embedding model: subclass `EmbedderTests` in a test file and say which.

    from tacenda.testing.embedders import EmbedderTests

    class TestMyEmbedder(EmbedderTests):
        def make_model(self):
            return MyEmbedder(width=8)

About twenty-five tests are inherited: what ``fit``, ``transform`` and ``width`` promise to every
host, the way to disk and back, and what is refused.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacenda import plugins
from tacenda.corpus import Corpus
from tacenda.errors import NotFittedError, TacendaError
from tacenda.testing.artifact_tests import ArtifactTests
from tacenda.testing.embedder_cases import STRANGE, Sentences, sample_sentences
from tacenda.testing.refusals import assert_refuses, refusal_of


class EmbedderTests(ArtifactTests):
    """Inherit, and define ``make_model``.

    Attributes
    ----------
    rtol
        How far, relative to the largest value of the output, results may differ where the same
        numbers are computed in another order: in another batch, or by another fit.
    may_hold_nan
        Names of arrays of the artefact in which NaN is legitimate.

    """

    rtol: float = 1e-4

    def training_data(self) -> Corpus:
        """`corpus`."""
        return self.corpus()

    def corpus(self) -> Corpus:
        """The text the model is fitted on; override it if the default does not suit the model."""
        return Corpus.from_sentences(sample_sentences())

    def sentences(self) -> Sentences:
        """Sentences to transform: known words, unknown ones, one word, none."""
        known = self.corpus().vocabulary.words[:40]
        words = [word for word in known if not word.startswith("<")]
        return [words[:9], [], [words[3]], ["unseen", words[1], "unseen"], words[::-1]]

    # -- what it is --------------------------------------------------------------------------------

    def test_names_its_entry_point(self, model: Any) -> None:
        assert model.kind == "embedders"
        assert model.name
        assert isinstance(model.name, str)
        assert isinstance(model.distribution, str)
        assert getattr(model, "api_version", 1) == plugins.API_VERSION

    def test_the_registry_finds_it_under_its_name(self, model: Any) -> None:
        found = plugins.get(model.kind, model.name, distribution=model.distribution)
        assert found is type(model), "the entry point leads to another class"

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

    def other_corpus(self) -> Corpus:
        """Another text, for the test that fits twice."""
        return Corpus.from_sentences(sample_sentences(seed=1))

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

    def test_threads_may_share_it(self, model: Any) -> None:
        expected = model.transform(self.sentences())
        found: list[Any] = []

        def work() -> None:
            found.extend(model.transform(self.sentences()) for _ in range(5))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 10, "a thread failed"
        for result in found:
            self.assert_equal(result, expected)

    # -- what it refuses ---------------------------------------------------------------------------

    def test_an_unfitted_model_says_so(self, tmp_path: Path) -> None:
        model = self.make_model()
        assert_refuses(lambda: model.transform([["a"]]), NotFittedError, "transform before fit")
        assert_refuses(lambda: model.save(tmp_path / "m"), NotFittedError, "save before fit")
        assert not (tmp_path / "m").exists()

    @pytest.mark.parametrize("sentences", [[["a"]], [["a", "a"], ["a"]]])
    def test_a_text_of_one_word_is_served_or_refused_clearly(self, sentences: Sentences) -> None:
        corpus = Corpus.from_sentences(sentences)
        model = self.make_model()
        refusal = refusal_of(lambda: model.fit(corpus), TacendaError, "fitting one word")
        if refusal is None:
            self.assert_well_formed(model, [["a"], ["b", "a"]])

    # -- comparisons -------------------------------------------------------------------------------

    def assert_well_formed(self, model: Any, sentences: Sentences) -> None:
        """One finite float32 array (tokens, width) a sentence, contiguous in memory of its own."""
        arrays = list(model.transform(sentences))
        assert len(arrays) == len(sentences)
        for array, sentence in zip(arrays, sentences, strict=True):
            assert isinstance(array, np.ndarray)
            assert array.dtype == np.float32
            assert array.shape == (len(sentence), model.width)
            assert array.flags.c_contiguous
            assert np.isfinite(array).all()

    def assert_same_model(self, model: Any, original: Any) -> None:
        """Equal in settings, description and output, bit for bit."""
        assert model.config_dict() == original.config_dict()
        assert model.width == original.width
        assert model.figures == original.figures
        assert model.fitted_on == original.fitted_on
        self.assert_equal(model.transform(self.sentences()), original.transform(self.sentences()))

    def assert_equal(self, arrays: Any, expected: Any) -> None:
        """Bit for bit."""
        for array, other in zip(arrays, expected, strict=True):
            np.testing.assert_array_equal(array, other)

    def assert_close(self, arrays: Any, expected: Any) -> None:
        """Up to ``rtol`` of the largest expected value."""
        scale = max((np.abs(other).max(initial=0.0) for other in expected), default=0.0)
        for array, other in zip(arrays, expected, strict=True):
            np.testing.assert_allclose(array, other, rtol=0, atol=self.rtol * float(scale))
