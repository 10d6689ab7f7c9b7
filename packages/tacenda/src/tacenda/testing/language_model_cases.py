"""What `LanguageModelTests` feeds a model, and how it compares."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda import plugins
from tacenda.corpus import Corpus
from tacenda.testing.embedder_cases import Sentences, sample_sentences
from tacenda.testing.model_cases import ModelCases


class LanguageModelCases(ModelCases):
    """Texts, sequences and states; the fitted model; comparisons."""

    atol: float = 1e-4
    normalization: float = 1e-5
    uses_context: bool = True

    def training_data(self) -> Corpus:
        """`corpus`."""
        return self.corpus()

    def text(self) -> Sentences:
        """The sentences the model is fitted on; ``<unk>`` is written in some of them."""
        sentences = sample_sentences()
        sentences[7][2] = sentences[20][0] = "<unk>"
        return sentences

    def corpus(self) -> Corpus:
        """The same as a corpus."""
        return Corpus.from_sentences(self.text())

    def held_out(self) -> Corpus:
        """Other sentences, in the vocabulary of `corpus`."""
        vocabulary = self.corpus().vocabulary
        return Corpus.from_sentences(sample_sentences(60, seed=2), vocabulary=vocabulary)

    def other_corpus(self) -> Corpus:
        """Another text, for the test that fits twice."""
        return Corpus.from_sentences(sample_sentences(seed=1))

    def check_entry_point(self, model: Any) -> None:
        """The registry finds the class under the names that it gives itself."""
        assert model.kind == "language_models"
        assert model.name
        assert isinstance(model.name, str)
        assert getattr(model, "api_version", 1) == plugins.API_VERSION
        found = plugins.get(model.kind, model.name, distribution=model.distribution)
        assert found is type(model), "the entry point leads to another class"

    # -- what is fed -------------------------------------------------------------------------------

    def words(self, model: Any) -> list[int]:
        """Ids of a few ordinary words."""
        words = [word for word in model.vocabulary.words if not word.startswith("<")]
        return [model.vocabulary.id_of(word) for word in words[:9]]

    def sequences(self, model: Any) -> list[list[int]]:
        """Ids: known words, the unknown one, an end inside, nothing, one word, a sentence of the text."""
        words, vocabulary = self.words(model), model.vocabulary
        end, unknown = vocabulary.boundary_id, vocabulary.unknown_id
        own = vocabulary.encode(self.text()[0]).tolist()
        strange = [
            [unknown, words[1], unknown],
            [*words[:2], end, words[0], end],
            [end],
            [end, end],
        ]
        return [[*words, end], [], [words[3]], *strange, [*own, end], words[::-1]]

    def some_states(self, model: Any) -> list[Any]:
        """The start, nothing, and those at the ends of `sequences`."""
        states = [model.start(), model.null()]
        for sequence in self.sequences(model):
            state = model.start()
            for word in sequence:
                state = model.advance(state, word)
            states.append(state)
        return states

    # -- comparisons -------------------------------------------------------------------------------

    def assert_close(self, found: Any, expected: Any) -> None:
        """Up to ``atol``; what is impossible is so in both."""
        np.testing.assert_allclose(found, expected, rtol=0, atol=self.atol)

    def assert_same_scores(self, model: Any, original: Any) -> None:
        """Models of one text score it alike."""
        assert model.vocabulary.words == original.vocabulary.words
        ids, offsets = pack(self.sequences(original))
        self.assert_close(model.score_corpus(ids, offsets), original.score_corpus(ids, offsets))

    def assert_same_model(self, model: Any, original: Any) -> None:
        """Equal in settings, description and predictions, bit for bit."""
        assert model.config_dict() == original.config_dict()
        assert model.figures == original.figures
        assert model.fitted_on == original.fitted_on
        assert model.vocabulary == original.vocabulary
        ids, offsets = pack(self.sequences(original))
        np.testing.assert_array_equal(
            model.score_corpus(ids, offsets), original.score_corpus(ids, offsets)
        )
        np.testing.assert_array_equal(
            model.log_probs(self.some_states(model)), original.log_probs(self.some_states(original))
        )


def pack(sequences: list[list[int]]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Sequences end to end, and where each begins."""
    ids = np.array([word for sequence in sequences for word in sequence], np.int32)
    return ids, np.cumsum([0, *map(len, sequences)], dtype=np.int64)
