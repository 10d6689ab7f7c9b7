"""Conformance of a language model: subclass `LanguageModelTests` in a test file and say which.

    from tacenda_lm.testing import LanguageModelTests

    class TestMyModel(LanguageModelTests):
        def make_model(self):
            return MyModel(width=8)

About thirty tests are inherited: what ``fit``, ``start``, ``advance``, ``log_probs``, ``log_prob``,
``score_corpus``, ``score_from`` and ``distributions`` promise, that every distribution is normalised, threads
and forked processes, the way to disk and back, and what is refused. Log-probabilities are natural; words are
ids of ``model.vocabulary``. Needs pytest: install ``tacenda-lm[testing]``.
"""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tacenda.corpus import Corpus
from tacenda.errors import DataError, NotFittedError, TacendaError
from tacenda.testing.models import ModelTests, assert_refuses, refusal_of
from tacenda.testing.samples import Sentences, sample_sentences
from tacenda_lm.surprisal.table import surprisal_table
from tacenda_lm.unknown_words import UnknownWords

__all__ = ["LanguageModelTests", "pack"]


class LanguageModelTests(ModelTests):
    """Inherit, and define ``make_model``.

    Attributes
    ----------
    atol
        How far log-probabilities may differ where the same numbers are computed in another order.
    normalization
        How far the probabilities of a distribution may sum to something other than one.
    uses_context
        Whether the next word depends on the word before.
    may_hold_nan, fork_seconds
        See `tacenda.testing.models.ModelTests`.
    """

    kind = "language_models"
    atol: float = 1e-4
    normalization: float = 1e-5
    uses_context: bool = True

    def training_data(self) -> Corpus:
        """Return `corpus`."""
        return self.corpus()

    def text(self) -> Sentences:
        """Return the sentences to fit the model to; ``<unk>`` is written in some of them."""
        sentences = sample_sentences()
        sentences[7][2] = sentences[20][0] = "<unk>"
        return sentences

    def corpus(self) -> Corpus:
        """Return `text` as a corpus."""
        return Corpus.from_sentences(self.text())

    def held_out(self) -> Corpus:
        """Return other sentences, in the vocabulary of `corpus`."""
        vocabulary = self.corpus().vocabulary
        return Corpus.from_sentences(sample_sentences(60, seed=2), vocabulary=vocabulary)

    def other_corpus(self) -> Corpus:
        """Return another text, for the test that fits twice."""
        return Corpus.from_sentences(sample_sentences(seed=1))

    def applied(self, model: Any) -> list[Any]:
        """Return the scores of `sequences`, and the distributions after `some_states`."""
        scores = model.score_corpus(*pack(self.sequences(model)))
        return [scores, model.log_probs(self.some_states(model))]

    # -- what is fed -------------------------------------------------------------------------------

    def words(self, model: Any) -> list[int]:
        """Return the ids of a few ordinary words."""
        words = [word for word in model.vocabulary.words if not word.startswith("<")]
        return [model.vocabulary.id_of(word) for word in words[:9]]

    def sequences(self, model: Any) -> list[list[int]]:
        """Return ids: known words, the unknown one, an end inside, nothing, one word, a sentence of the text."""
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
        """Return the state at the start, that of no context, and those after `sequences`."""
        states = [model.start(), model.null()]
        for sequence in self.sequences(model):
            state = model.start()
            for word in sequence:
                state = model.advance(state, word)
            states.append(state)
        return states

    # -- the words of running text -----------------------------------------------------------------

    def test_the_words_of_a_table_add_up_to_the_scores(self, model: Any) -> None:
        """By the chain rule, with what an unknown word has of its class."""
        vocabulary, shares = model.vocabulary, UnknownWords(model.vocabulary)
        known = [vocabulary.words[i] for i in self.words(model)]
        lines = [[*known[:3], "never-seen"], [known[3], "never-seen", known[4]]]
        table = surprisal_table(
            model, "\n".join(map(" ".join, lines)), tokenizer="whitespace", context="sentence"
        )
        ids = [[*vocabulary.encode(line), vocabulary.boundary_id] for line in lines]
        scores = np.split(model.score_corpus(*pack(ids)), [len(ids[0])])
        expected = np.concatenate([each[:-1] for each in scores])
        expected += shares.log_shares([word for line in lines for word in line])
        found = np.asarray(table["surprisal"], float)
        np.testing.assert_allclose(found, -expected / np.log(2), atol=self.atol)
        assert np.asarray(table["known"]).tolist() == [True] * 3 + [False, True, False, True]
        assert np.isfinite(found).all()

    # -- fitting -----------------------------------------------------------------------------------

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
        """They are hashable, copyable, and equal where they are made in the same way."""
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
        """After the start, after no context, after every word, after unknown words, an end and long texts."""
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

    def test_many_short_sequences_do_not_depend_on_each_other(self, model: Any) -> None:
        """Wherever a model cuts a long text into blocks, some sequence begins there."""
        rng = np.random.default_rng(0)
        words = np.array(self.words(model))
        some = [rng.choice(words, n).tolist() for n in range(6) for _ in range(5)]
        alone = [model.score_corpus(*pack([sequence])) for sequence in some]
        order = rng.integers(0, len(some), 3_000).tolist()
        together = model.score_corpus(*pack([some[i] for i in order]))
        self.assert_close(together, np.concatenate([alone[i] for i in order]))

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

    @pytest.mark.parametrize(
        "offsets", [[], [0], [1, 2], [0, 1], [0, 2, 1, 2], [0, 3], [0, 2**63 - 1, -2, 2]]
    )
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

    # -- comparisons -------------------------------------------------------------------------------

    def assert_close(self, found: Any, expected: Any) -> None:
        """Compare arrays up to ``atol``; what is impossible must be so in both."""
        several = isinstance(found, list)
        for array, other in zip(found, expected, strict=True) if several else [(found, expected)]:
            np.testing.assert_allclose(array, other, rtol=0, atol=self.atol)

    def assert_same_scores(self, model: Any, original: Any) -> None:
        """Compare how two models of one text score it."""
        assert model.vocabulary.words == original.vocabulary.words
        ids, offsets = pack(self.sequences(original))
        self.assert_close(model.score_corpus(ids, offsets), original.score_corpus(ids, offsets))

    def assert_same_model(self, model: Any, original: Any) -> None:
        """Compare two models, which must be equal in every respect, bit for bit."""
        assert model.vocabulary == original.vocabulary
        super().assert_same_model(model, original)


def pack(sequences: list[list[int]]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return sequences end to end, and their offsets."""
    ids = np.array([word for sequence in sequences for word in sequence], np.int32)
    return ids, np.cumsum([0, *map(len, sequences)], dtype=np.int64)
