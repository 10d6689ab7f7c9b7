"""Conformance of a language model: subclass `LanguageModelTests` in a test file and say which.

    from tacenda.testing.language_models import LanguageModelTests

    class TestMyModel(LanguageModelTests):
        def make_model(self):
            return MyModel(width=8)

About thirty tests are inherited: what ``fit``, ``start``, ``advance``, ``log_probs``, ``log_prob``,
``score_corpus``, ``score_from`` and ``distributions`` promise, that every distribution is normalised, the way to
disk and back, and what is refused. Log-probabilities are natural; words are ids of ``model.vocabulary``.
"""

from __future__ import annotations

import copy
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacenda.testing.language_model_artifacts import LanguageModelArtifactTests
from tacenda.testing.language_model_cases import pack


class LanguageModelTests(LanguageModelArtifactTests):
    """Inherit, and define ``make_model``.

    Attributes
    ----------
    atol
        How far log-probabilities may differ where the same numbers are computed in another order.
    normalization
        How far the probabilities of a distribution may sum to something other than one.
    uses_context
        Whether what comes next depends on the word before.
    may_hold_nan
        Names of arrays of the artefact in which NaN is legitimate.

    """

    # -- what it is --------------------------------------------------------------------------------

    def test_names_its_entry_point(self, model: Any) -> None:
        self.check_entry_point(model)

    def test_fit_returns_the_model_and_notes_the_text(self) -> None:
        model = self.make_model()
        assert model.fit(self.corpus()) is model
        assert model.fitted_on["n_tokens"] == self.corpus().n_tokens

    def test_fit_takes_a_path_a_string_and_token_lists(self, model: Any, tmp_path: Path) -> None:
        sentences = self.text()
        string = "\n".join(map(" ".join, sentences))
        path = tmp_path / "text.txt"
        path.write_text(string, encoding="utf8")
        for text in (path, string, iter(sentences)):
            other = self.make_model().fit(text)
            self.assert_same_scores(other, model)

    def test_held_out_text_gives_a_figure(self) -> None:
        model = self.make_model().fit(self.corpus(), valid=self.held_out())
        figures = [each for each in model.figures if each["measure"] == "perplexity"]
        assert figures, "fit(corpus, valid) notes the perplexity of the held-out text in figures"
        for figure in figures:
            assert figure["protocol"], "a figure says how it was measured"
            assert 1 <= figure["value"] < np.inf

    def test_fitting_again_forgets_the_first_text(self, model: Any) -> None:
        again = self.make_model().fit(self.other_corpus()).fit(self.corpus())
        self.assert_same_scores(again, model)

    def test_fitting_is_deterministic(self, model: Any) -> None:
        self.assert_same_scores(self.make_model().fit(self.corpus()), model)

    def test_its_vocabulary_is_that_of_the_text(self, model: Any) -> None:
        assert model.vocabulary.fingerprint == self.corpus().vocabulary.fingerprint

    # -- states ------------------------------------------------------------------------------------

    def test_states_are_values(self, model: Any) -> None:
        """Hashable, equal where made in the same way, copyable."""
        for state, same in zip(self.some_states(model), self.some_states(model), strict=True):
            assert state == same
            assert hash(state) == hash(same)
            assert copy.copy(state) == copy.deepcopy(state) == state
            assert {state: 1}[same] == 1

    def test_advance_leaves_its_state_alone(self, model: Any) -> None:
        state = model.start()
        before, number = model.log_probs([state]), hash(state)
        for word in (*self.words(model)[:5], model.vocabulary.boundary_id):
            model.advance(state, word)
        assert hash(state) == number
        np.testing.assert_array_equal(model.log_probs([state]), before)

    def test_the_word_before_matters(self, model: Any) -> None:
        if not self.uses_context:
            pytest.skip("the model says that it uses no context")
        rows = model.log_probs([model.advance(model.start(), word) for word in self.words(model)])
        assert not np.allclose(rows, rows[0], atol=1e-3), "the next word depends on no other"

    # -- distributions -----------------------------------------------------------------------------

    def test_every_distribution_is_normalised(self, model: Any) -> None:
        """After the start, nothing, every word, unknown words, an end, and a long way."""
        states = self.some_states(model)
        states += [model.advance(model.start(), word) for word in range(len(model.vocabulary))]
        rows = model.log_probs(states)
        assert isinstance(rows, np.ndarray)
        assert rows.shape == (len(states), len(model.vocabulary))
        assert rows.dtype in (np.float32, np.float64)
        sums = np.exp(rows.astype(np.float64)).sum(axis=1)
        np.testing.assert_allclose(sums, 1, rtol=0, atol=self.normalization)

    def test_no_states(self, model: Any) -> None:
        assert model.log_probs([]).shape == (0, len(model.vocabulary))
        assert model.log_prob([], np.array([], np.int64)).shape == (0,)

    def test_a_state_does_not_depend_on_its_company(self, model: Any) -> None:
        states = self.some_states(model)
        together = model.log_probs(states)
        for i, state in enumerate(states):
            self.assert_close(model.log_probs([state])[0], together[i])
        self.assert_close(model.log_probs(states[::-1])[::-1], together)

    def test_one_word_is_scored_as_in_the_whole_distribution(self, model: Any) -> None:
        states = self.some_states(model)
        rows = model.log_probs(states)
        for word in (0, *self.words(model), model.vocabulary.unknown_id):
            found = model.log_prob(states, np.full(len(states), word))
            assert found.dtype == np.float64
            self.assert_close(found, rows[:, word])

    # -- whole texts -------------------------------------------------------------------------------

    def test_a_text_is_scored_as_one_word_after_the_other(self, model: Any) -> None:
        ids, offsets = pack(self.sequences(model))
        expected = []
        for sequence in self.sequences(model):
            state = model.start()
            for word in sequence:
                expected.append(float(model.log_prob([state], np.array([word]))[0]))
                state = model.advance(state, word)
        found = model.score_corpus(ids, offsets)
        assert found.dtype == np.float64
        assert found.shape == ids.shape
        self.assert_close(found, expected)

    def test_a_stream_is_scored_in_parts_as_in_one(self, model: Any) -> None:
        [*words, end] = self.sequences(model)[0]
        whole = np.array([*words, end, *words[::-1]], np.int32)
        expected = model.score_corpus(*pack([whole.tolist()]))
        for cut in (0, 3, len(words) + 1, len(whole)):
            start = model.start()
            first, state = model.score_from(start, whole[:cut])
            second, last = model.score_from(state, whole[cut:])
            assert first.dtype == second.dtype == np.float64
            assert start == model.start(), "score_from changes the state it is given"
            self.assert_close(np.concatenate([first, second]), expected)
            step = model.start()
            for word in whole.tolist():
                step = model.advance(step, word)
            self.assert_close(model.log_probs([last]), model.log_probs([step]))

    def test_the_distributions_of_a_text_hold_its_scores(self, model: Any) -> None:
        ids, offsets = pack(self.sequences(model))
        rows = np.concatenate(list(model.distributions(ids, offsets)))
        assert rows.shape == (len(ids), len(model.vocabulary))
        self.assert_close(rows[np.arange(len(ids)), ids], model.score_corpus(ids, offsets))

    def test_a_sequence_does_not_depend_on_its_company(self, model: Any) -> None:
        sequences = self.sequences(model)
        alone = [model.score_corpus(*pack([sequence])) for sequence in sequences]
        for order in (sequences, sequences[::-1]):
            together = model.score_corpus(*pack(order))
            expected = alone if order is sequences else alone[::-1]
            self.assert_close(together, np.concatenate(expected))

    @pytest.mark.parametrize("n", [0, 1, 3])
    def test_empty_sequences(self, model: Any, n: int) -> None:
        ids, offsets = pack([[]] * n)
        assert model.score_corpus(ids, offsets).shape == (0,)
        assert sum(len(rows) for rows in model.distributions(ids, offsets)) == 0

    def test_a_very_long_sequence_among_short_ones(self, model: Any) -> None:
        words = self.words(model)
        long = (words * 3_000)[:3_000]
        scores = model.score_corpus(*pack([words[:2], long, [], words[:1]]))
        assert len(scores) == 3_003
        assert np.isfinite(scores).all()
        self.assert_close(scores[2:3], model.score_corpus(*pack([words[:1]])))

    def test_it_has_learnt_something(self, model: Any) -> None:
        """The text it was fitted on is more probable than if all words were equally so."""
        corpus = self.corpus()
        mean = model.score_corpus(corpus.ids, corpus.offsets).mean()
        assert mean > -np.log(len(model.vocabulary)) + 0.05

    def test_leaves_its_input_alone(self, model: Any) -> None:
        ids, offsets = pack(self.sequences(model))
        before = ids.copy(), offsets.copy()
        model.score_corpus(ids, offsets)
        list(model.distributions(ids, offsets))
        np.testing.assert_array_equal(ids, before[0])
        np.testing.assert_array_equal(offsets, before[1])

    def test_results_belong_to_the_caller(self, model: Any) -> None:
        ids, offsets = pack(self.sequences(model))
        states = self.some_states(model)
        before = model.score_corpus(ids, offsets).copy(), model.log_probs(states).copy()
        model.score_corpus(ids, offsets).fill(np.nan)
        model.log_probs(states).fill(np.nan)
        np.testing.assert_array_equal(model.score_corpus(ids, offsets), before[0])
        np.testing.assert_array_equal(model.log_probs(states), before[1])

    def test_threads_may_share_it(self, model: Any) -> None:
        ids, offsets = pack(self.sequences(model))
        expected = model.score_corpus(ids, offsets)
        found: list[Any] = []

        def work() -> None:
            found.extend(model.score_corpus(ids, offsets) for _ in range(5))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 10, "a thread failed"
        for scores in found:
            np.testing.assert_array_equal(scores, expected)
