"""The part of `LanguageModelTests` about artefacts, and about what a language model refuses."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacenda.corpus import Corpus
from tacenda.errors import DataError, NotFittedError, TacendaError
from tacenda.testing.artifact_tests import ArtifactTests
from tacenda.testing.language_model_cases import LanguageModelCases, pack
from tacenda.testing.refusals import assert_refuses, refusal_of


class LanguageModelArtifactTests(LanguageModelCases, ArtifactTests):
    """Inherited by `LanguageModelTests`."""

    # -- what it refuses ---------------------------------------------------------------------------

    def test_an_unfitted_model_says_so(self, tmp_path: Path) -> None:
        model = self.make_model()
        assert_refuses(model.start, NotFittedError, "start before fit")
        assert_refuses(lambda: model.vocabulary, NotFittedError, "vocabulary before fit")
        score = partial(model.score_corpus, *pack([[0]]))
        assert_refuses(score, NotFittedError, "score_corpus before fit")
        assert_refuses(lambda: model.save(tmp_path / "m"), NotFittedError, "save before fit")
        assert not (tmp_path / "m").exists()

    @pytest.mark.parametrize("word", [-1, "too many"])
    def test_an_id_that_is_no_word_is_refused(self, model: Any, word: Any) -> None:
        word = len(model.vocabulary) if word == "too many" else word
        acts = {
            "score_corpus": lambda: model.score_corpus(*pack([[0, word]])),
            "distributions": lambda: list(model.distributions(*pack([[0, word]]))),
            "advance": lambda: model.advance(model.start(), word),
            "score_from": lambda: model.score_from(model.start(), np.array([word])),
            "log_prob": lambda: model.log_prob([model.start()], np.array([word])),
        }
        for name, act in acts.items():
            assert_refuses(act, DataError, f"{name} with the id {word}")

    @pytest.mark.parametrize("offsets", [[], [0], [1, 2], [0, 1], [0, 2, 1, 2], [0, 3]])
    def test_offsets_that_do_not_cut_the_ids_are_refused(
        self, model: Any, offsets: list[int]
    ) -> None:
        ids = np.zeros(2, np.int32)
        score = partial(model.score_corpus, ids, np.array(offsets, np.int64))
        assert_refuses(score, DataError, f"score_corpus of two ids with offsets {offsets}")

    @pytest.mark.parametrize("sentences", [[["a"]], [["a", "a"], ["a"]]])
    def test_a_text_of_one_word_is_served_or_refused_clearly(
        self, sentences: list[list[str]]
    ) -> None:
        corpus = Corpus.from_sentences(sentences)
        model = self.make_model()
        if refusal_of(lambda: model.fit(corpus), TacendaError, "fitting one word") is None:
            sums = np.exp(model.log_probs([model.start()]).astype(np.float64)).sum()
            assert abs(sums - 1) <= self.normalization
