"""The part of `LanguageModelTests` about artefacts, and about what a language model refuses."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.artifact import Artifact
from tacit.corpus import Corpus
from tacit.errors import ArtifactError, DataError, NotFittedError, TacitError
from tacit.testing.language_model_cases import LanguageModelCases, pack
from tacit.testing.refusals import assert_refuses, refusal_of


class LanguageModelArtifactTests(LanguageModelCases):
    """Inherited by `LanguageModelTests`."""

    # -- to disk and back --------------------------------------------------------------------------

    def test_comes_back_from_disk_bit_for_bit(self, model: Any, tmp_path: Path) -> None:
        model.save(tmp_path / "model")
        loaded = tacit.load(tmp_path / "model")
        assert type(loaded) is type(model)
        self.assert_same_model(loaded, model)
        loaded.save(tmp_path / "again")
        first, again = (
            {path.name: path.read_bytes() for path in (tmp_path / name).iterdir() if path.is_file()}
            for name in ("model", "again")
        )
        assert first == again, "a loaded model saves other bytes than it was loaded from"

    def test_comes_back_from_bytes_bit_for_bit(self, model: Any) -> None:
        data = model.to_artifact().to_bytes()
        self.assert_same_model(type(model).from_artifact(Artifact.from_bytes(data)), model)

    def test_its_settings_are_json(self, model: Any) -> None:
        config = model.config_dict()
        assert json.loads(json.dumps(config, allow_nan=False)) == config

    def test_a_damaged_artifact_is_refused(self, model: Any) -> None:
        artifact = model.to_artifact()
        for name, array in artifact.arrays.items():
            others = {key: value for key, value in artifact.arrays.items() if key != name}
            damaged: dict[str, Any] = {"missing": {}, "of another rank": {name: array[None]}}
            if array.dtype.kind == "f" and array.size and name not in self.may_hold_nan:
                bad = array.copy()
                bad.flat[0] = np.nan
                damaged["holding NaN"] = {name: bad}
            for damage, change in damaged.items():
                spoilt = dataclasses.replace(artifact, arrays={**others, **change})
                action = f"loading with the array {name!r} {damage}"
                assert_refuses(partial(type(model).from_artifact, spoilt), ArtifactError, action)

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
        if refusal_of(lambda: model.fit(corpus), TacitError, "fitting one word") is None:
            sums = np.exp(model.log_probs([model.start()]).astype(np.float64)).sum()
            assert abs(sums - 1) <= self.normalization
