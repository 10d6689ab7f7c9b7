"""What follows from the contract, on a model whose numbers can be written down."""

import copy
import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from tacenda import Corpus, Vocabulary
from tacenda.errors import ConfigurationError, CorpusError, DataError
from tacenda_lm import (
    FullScore,
    KneserNey,
    LanguageModel,
    Mixture,
    Perplexity,
    State,
    UnknownWords,
)

WORDS = ["</s>", "<unk>", "a", "b", "c"]
#: p(next | word before); rows and columns in the order of WORDS, the row of </s> being the start.
TABLE = np.array(
    [
        [0.1, 0.1, 0.4, 0.3, 0.1],
        [0.2, 0.2, 0.2, 0.2, 0.2],
        [0.3, 0.05, 0.05, 0.4, 0.2],
        [0.6, 0.05, 0.1, 0.05, 0.2],
        [0.5, 0.1, 0.3, 0.05, 0.05],
    ]
)


class Tiny(LanguageModel):
    """A bigram model with the least that the contract asks for."""

    name = "tiny"

    def __init__(self, table=TABLE):
        self.table = np.log(table)
        self._vocabulary = Vocabulary(WORDS, [3, 0, 5, 4, 3])

    vocabulary = property(lambda self: self._vocabulary)

    def _fit(self, corpus, valid, fitting):
        self.held_out = valid

    def start(self):
        return State((0,))

    def advance(self, state, word):
        return State((int(word),))

    def log_probs(self, states):
        return self.table[[state.value[0] for state in states]]

    def config_dict(self):
        return {}


@pytest.fixture
def model():
    return Tiny()


def p(*words):
    """Probability of words one after another, from the start."""
    ids = [0, *(WORDS.index(word) for word in words)]
    return math.prod(TABLE[i, j] for i, j in itertools.pairwise(ids))


def test_score_is_the_base_10_logarithm_with_the_end(model):
    assert model.score("a b") == pytest.approx(math.log10(p("a", "b", "</s>")))
    assert model.score(["a", "b"], eos=False) == pytest.approx(math.log10(p("a", "b")))
    assert model.score("") == pytest.approx(math.log10(p("</s>")))
    assert model.score("zebra") == model.score("<unk>")


def test_full_scores_say_what_is_unknown(model):
    rows = list(model.full_scores("a zebra <unk>"))
    assert all(isinstance(row, FullScore) for row in rows)
    assert [row.oov for row in rows] == [False, True, True, False]
    assert sum(row.log_prob for row in rows) == pytest.approx(model.score("a zebra <unk>"))
    assert len(list(model.full_scores("", eos=False))) == 0
    for sentence, bos in itertools.product(["a zebra", "a </s> b", "<s> a"], [True, False]):
        assert {row.ngram_length for row in model.full_scores(sentence, bos=bos)} == {0}


def test_many_sentences_are_scored_as_one_by_one(model):
    sentences = ["a b", "", ["c"], "zebra a", "b b b b"]
    expected = [model.score(sentence) for sentence in sentences]
    np.testing.assert_allclose(model.score_batch(sentences), expected)
    natural = [scores.sum() for scores in model.token_log_probs(sentences)]
    np.testing.assert_allclose(natural, np.array(expected) * math.log(10))
    expected[1] = 0.0
    np.testing.assert_allclose(model.score_batch(sentences, blank_lines="skip"), expected)
    assert model.score_batch([]).shape == (0,)


def test_an_impossible_sentence_leaves_the_scores_of_others_alone():
    impossible = TABLE.copy()
    impossible[WORDS.index("a"), WORDS.index("c")] = 0.0
    with np.errstate(divide="ignore"):
        model = Tiny(impossible)
    lines = ["a b", "a c", "", "b a"]
    for eos in (True, False):
        found = model.score_batch(lines, eos=eos)
        expected = [model.score(line, eos=eos) for line in lines]
        assert found[1] == -math.inf
        np.testing.assert_allclose(found, expected)


def test_states_can_be_written_into_as_with_kenlm(model):
    first, second = State(), State()
    model.BeginSentenceWrite(first)
    total = 0.0
    for word in ("a", "b", "</s>"):
        total += model.BaseScore(first, word, second)
        first, second = second, first
    assert total == pytest.approx(model.score("a b"))
    model.BaseScore(first, "a", first)  # in place
    assert first == model.state_after("a")
    model.NullContextWrite(first)
    assert first == model.null()
    for each in (model, KneserNey(order=2).fit(["a b"])):
        with pytest.raises(DataError, match="BeginSentenceWrite"):
            each.BaseScore(State(), "a", State())
        for use in (
            lambda: each.BaseScore(None, "a", State()),  # noqa: B023
            lambda: each.BaseFullScore(State(), "a", None),  # noqa: B023
            lambda: each.BeginSentenceWrite(None),  # noqa: B023
            lambda: each.NullContextWrite(None),  # noqa: B023
        ):
            with pytest.raises(DataError, match="the state is None"):
                use()


def test_surprisal_is_in_bits(model):
    np.testing.assert_allclose(model.surprisal(["a", "b"]), [-math.log2(0.4), -math.log2(0.4)])
    assert model.surprisal("a b", eos=True)[-1] == pytest.approx(-math.log2(0.6))
    many = model.surprisals(["a b", "", "c"])
    assert [len(bits) for bits in many] == [2, 0, 1]
    np.testing.assert_allclose(many[0], model.surprisal("a b"))


def test_entropy_is_that_of_the_distribution_before_each_word(model):
    def bits(row):
        return -sum(x * math.log2(x) for x in row)

    np.testing.assert_allclose(model.entropy("a b"), [bits(TABLE[0]), bits(TABLE[2])])
    np.testing.assert_allclose(model.entropy("a", eos=True), [bits(TABLE[0]), bits(TABLE[2])])
    assert model.entropy("").shape == (0,)


def test_entropy_of_what_is_impossible_counts_nothing():
    certain = TABLE.copy()
    certain[0] = [0, 0, 1, 0, 0]
    with np.errstate(divide="ignore"):
        assert Tiny(certain).entropy("a")[0] == 0


def test_ranks_count_the_better_guesses(model):
    assert model.ranks("a b").tolist() == [0, 0]
    assert model.ranks("b c", eos=True).tolist() == [1, 1, 0]


# -- perplexity ----------------------------------------------------------------------------------------


def test_perplexity_carries_its_protocol(model):
    text = [["a", "b"], ["c", "zebra"], []]
    found = model.perplexity(text)
    parts = p("a", "b", "</s>"), p("c", "<unk>", "</s>")
    assert isinstance(found, float)
    assert (found.n_sentences, found.n_words, found.n_tokens, found.n_oov) == (2, 4, 6, 1)
    assert found == found.value == pytest.approx(math.prod(parts) ** (-1 / 6))
    assert found.without_oov == pytest.approx((math.prod(parts) / TABLE[4, 1]) ** (-1 / 5))
    words = p("a", "b") * p("c", "<unk>")
    assert found.without_eos == pytest.approx(words ** (-1 / 4))
    assert found.without_oov_and_eos == pytest.approx((words / TABLE[4, 1]) ** (-1 / 3))
    assert found.ppl1 == pytest.approx((math.prod(parts) / TABLE[4, 1]) ** (-1 / 3))
    assert found.oov_rate == 0.25
    assert found.n_characters == len("a b\nc zebra\n")
    spelled = UnknownWords(model.vocabulary).log_share("zebra")
    assert found.log_prob_spelling == pytest.approx(spelled)
    bits = -math.log2(math.prod(parts)) - spelled / math.log(2)
    assert found.bits_per_character == pytest.approx(bits / found.n_characters)
    assert found.bits_per_token == pytest.approx(math.log2(found))
    assert found.to_dict()["protocol"] == found.protocol
    again = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert (again, again.to_dict()) == (found, found.to_dict())


def test_perplexities_that_were_measured_in_one_way_can_be_pooled(model):
    text, way = [["a", "b"], [], ["c", "zebra"]], {"context": "stream", "blank_lines": "count"}
    parts = [model.perplexity(text[:1], **way), model.perplexity(text[1:], **way)]
    whole = model.perplexity(text, **way).to_dict()
    assert Perplexity.pool(parts).to_dict() == pytest.approx(whole)
    with pytest.raises(ConfigurationError, match="different blank_lines cannot be pooled"):
        Perplexity.pool([*parts, model.perplexity(text, context="stream")])
    with pytest.raises(ConfigurationError, match=r"5\.0 is not a Perplexity"):
        Perplexity.pool([*parts, 5.0])


def test_a_perplexity_worse_than_any_guess_is_announced_once(monkeypatch, recwarn):
    model = KneserNey(order=1).fit([["a", "b", "c"], ["b", "a"]] * 20)
    known, unknown = [["a", "b"]], [["x", "y"]]

    def improbable(ids, offsets):
        return np.full(len(ids), -1e4)  # as of parameters that are a million times too large

    model.perplexity(known)
    recwarn.clear()
    monkeypatch.setattr(model, "score_corpus", improbable)
    model.perplexity(known)
    model.perplexity(known)
    (said,) = [str(each.message) for each in recwarn]
    assert "of the known words is inf, worse than any guess" in said
    monkeypatch.setattr(model, "score_corpus", lambda ids, offsets: np.full(len(ids), np.nan))
    damaged = copy.copy(model)
    damaged.fitted_on = {**model.fitted_on, "n_tokens": 0}
    recwarn.clear()
    damaged.perplexity(known * 50)
    assert "of the known words is nan, worse than any guess" in str(recwarn.pop().message)
    assert math.isnan(damaged.perplexity([]))
    table = np.full(len(model.vocabulary), -1.0)
    table[model.vocabulary.unknown_id] = -230.0  # as a file without <unk> gives it
    monkeypatch.setattr(model, "score_corpus", lambda ids, offsets: table[ids])
    other = copy.copy(model)
    recwarn.clear()
    assert other.perplexity(unknown) > 1e30
    assert not recwarn.list


def test_a_string_is_one_sentence_as_with_kenlm(model):
    assert model.perplexity("a b c") == pytest.approx(10 ** (-model.score("a b c") / 4))


# -- text: a path is a file, a string is text, a line is a sentence ------------------------------------

LINES = ["a b", "c b a", "zebra"]


@pytest.fixture
def path(write_file):
    return write_file("text.txt", "\n".join(LINES) + "\n")


def every_form(path, vocabulary):
    corpus = Corpus.from_text(path, vocabulary=vocabulary)
    words = [line.split() for line in LINES]
    return [path, [path], "\n".join(LINES), LINES, words, iter(LINES), corpus]


TAKES_TEXT = {
    "perplexity": lambda m, text: [m.perplexity(text)],
    "score_batch": lambda m, text: m.score_batch(text),
    "token_log_probs": lambda m, text: np.concatenate(m.token_log_probs(text)),
    "surprisals": lambda m, text: np.concatenate(m.surprisals(text)),
    "check_normalized": lambda m, text: [m.check_normalized(text)],
    "record": lambda m, text: m.record(text, "it") or [m.figures[-1]["value"]],
    "component_scores": lambda m, text: [s["one"].sum() for s in mixed(m).component_scores(text)],
    "fit_weights": lambda m, text: list(mixed(m).fit_weights(text).weights.values()),
}


def mixed(model):
    return Mixture({"one": model, "other": Tiny(np.full((5, 5), 0.2))})


@pytest.mark.parametrize("form", range(7))
@pytest.mark.parametrize("name", TAKES_TEXT)
def test_every_function_of_texts_takes_every_form(model, path, name, form):
    model.figures = []
    text = every_form(path, model.vocabulary)[form]
    found = TAKES_TEXT[name](model, text)
    np.testing.assert_allclose(found, TAKES_TEXT[name](model, [line.split() for line in LINES]))


@pytest.mark.parametrize("form", range(7))
def test_fit_takes_every_form_as_text_and_as_held_out_text(path, form):
    expected = KneserNey(order=2).fit(path, valid=path)
    text, valid = (every_form(path, expected.vocabulary)[form] for _ in range(2))
    model = KneserNey(order=2).fit(text, valid=valid)
    assert model.score("a b c") == pytest.approx(expected.score("a b c"))
    assert model.figures[0]["value"] == pytest.approx(expected.figures[0]["value"])


def test_the_name_of_a_file_is_no_text(model, path):
    for act in [*TAKES_TEXT.values(), lambda m, text: KneserNey().fit(text)]:
        with pytest.raises(CorpusError, match=r"name of a file.*Path\("):
            act(model, str(path))


@pytest.mark.parametrize("name", ["score", "surprisal", "entropy", "ranks", "top_k", "full_scores"])
def test_a_function_of_a_sentence_takes_no_file(model, path, name):
    with pytest.raises(CorpusError, match="a sentence is a string or a list of strings"):
        list(getattr(model, name)(path))


def test_a_corpus_counts_every_unknown_word(model):
    """So does every other form of text, a written <unk> among them; but the corpus has no letters of them."""
    text = [["a", "<unk>"], ["zebra"]]
    corpus = Corpus.from_sentences(text, vocabulary=model.vocabulary)
    assert (model.perplexity(text).n_oov, model.perplexity(text).n_characters) == (2, 14)
    found = model.perplexity(corpus)
    assert (found.n_oov, found.bits_per_character, found.log_prob_spelling) == (2, None, None)
    assert found == pytest.approx(model.perplexity(text))


@pytest.mark.parametrize(("text", "in_corpus"), [("a 1990\n", None), ("a NUMBER\n", 9)])
def test_a_corpus_has_no_characters_of_numbers_that_it_replaced(text, in_corpus):
    corpus = Corpus.from_text(text * 3, digits=True)
    model = KneserNey(order=1).fit(corpus)
    assert model.perplexity(text).n_characters == len(text)
    found = model.perplexity(corpus).n_characters
    assert found == (in_corpus and 3 * in_corpus)


def test_the_perplexity_of_nothing_is_not_a_number(model):
    found = model.perplexity([[]])
    assert math.isnan(found)
    assert found.to_dict()["value"] is None
    assert found.n_tokens == 0


def test_an_impossible_text_has_infinite_perplexity():
    parts = {"log_prob_eos": -2.0, "log_prob_oov": 0.0, "n_oov": 0, "n_characters": None}
    assert Perplexity(log_prob_known=-math.inf, n_sentences=1, n_words=1, **parts) == math.inf
    assert Perplexity(log_prob_known=-1e9, n_sentences=1, n_words=1, **parts) == math.inf
    # of unknown words alone: the other measures do not count them
    parts |= {"log_prob_oov": -math.inf, "n_oov": 1}
    found = Perplexity(log_prob_known=-4.0, n_sentences=1, n_words=3, **parts)
    assert found == found.without_eos == math.inf
    assert found.without_oov == pytest.approx(math.exp(2))
    assert found.without_oov_and_eos == pytest.approx(math.exp(2))
    assert found.ppl1 == pytest.approx(math.exp(3))


def test_a_perplexity_is_made_from_its_attributes_only():
    parts = dict.fromkeys(("log_prob_known", "log_prob_oov", "log_prob_eos"), -1.0)
    counts = {"n_sentences": 1, "n_words": 2, "n_oov": 1}
    assert Perplexity(**parts, **counts, context="stream").context == "stream"
    with pytest.raises(TypeError, match="not made from 'contxt'"):
        Perplexity(**parts, **counts, contxt="stream")


def test_another_vocabulary_and_a_context_of_another_name_are_refused(model):
    with pytest.raises(CorpusError, match="vocabulary"):
        model.perplexity(Corpus.from_sentences([["b", "a"]]))
    with pytest.raises(ConfigurationError, match="must be 'sentence' or 'stream', not 'doc"):
        model.perplexity([["a", "b"]], context="document")


@pytest.mark.parametrize("sentence", [[1, 2], ["a", None], [["a"]]])
def test_what_is_no_sentence_is_refused(model, sentence):
    for act in (model.score, model.surprisal, lambda s: model.perplexity([s])):
        with pytest.raises(CorpusError, match="string"):
            act(sentence)


# -- normalization -------------------------------------------------------------------------------------


def test_the_normalization_check_finds_the_context(model):
    assert model.check_normalized() < 1e-12
    bad = TABLE.copy()
    bad[3, 0] += 1e-3
    with pytest.raises(DataError, match=r"after '<s> a b' sum to 1\.001"):
        Tiny(bad).check_normalized(["a b"])
    assert Tiny(bad).check_normalized(["a a"]) < 1e-12, "it was asked about other contexts"
    bad[3, 0] = math.nan
    with pytest.raises(DataError, match="nan"):
        Tiny(bad).check_normalized()


@pytest.mark.parametrize("n", [1, 9, 10, 11, 25])
def test_the_normalization_check_takes_as_many_contexts_as_asked(model, monkeypatch, n):
    seen, log_probs = [], Tiny.log_probs
    monkeypatch.setattr(
        Tiny, "log_probs", lambda self, states: log_probs(self, seen.extend(states) or states)
    )
    model.check_normalized(n_contexts=n)
    assert len(seen) == n + 1, "and the context without known words"


def test_the_normalization_check_refuses_a_number_that_is_none(model):
    for wrong in (0, -5, 1.5):
        with pytest.raises(ConfigurationError, match=f"n_contexts is {wrong}"):
            model.check_normalized(n_contexts=wrong)
    with pytest.raises(ConfigurationError, match="seed is -1"):
        model.check_normalized(seed=-1)


# -- what comes next -----------------------------------------------------------------------------------


def test_next_words_by_their_probability(model):
    np.testing.assert_allclose(model.next_word("a"), TABLE[2])
    assert [word for word, _ in model.top_k("a", 3)] == ["b", "</s>", "c"]
    assert model.top_k("b", 100)[0] == ("</s>", pytest.approx(0.6))
    assert len(model.top_k("b", 100)) == len(WORDS)


@pytest.mark.parametrize(
    ("options", "power", "allowed"),
    [
        ({"unknown": True}, 1.0, WORDS),
        ({}, 1.0, ["</s>", "a", "b", "c"]),
        ({"temperature": 0.5}, 2.0, ["</s>", "a", "b", "c"]),
        ({"k": 2}, 1.0, None),
    ],
)
def test_samples_are_drawn_with_the_models_probabilities(model, options, power, allowed):
    """Chi-square over all beginnings of two words, which right samples fail for one in a million seeds."""

    def chances(before):
        kept = allowed or [word for word, _ in model.top_k(before, options["k"])]
        row = TABLE[WORDS.index(before or "</s>")]
        p = np.array([row[i] if word in kept else 0.0 for i, word in enumerate(WORDS)]) ** power
        return dict(zip(WORDS, p / p.sum(), strict=True))

    expected = {}
    for first, chance in chances("").items():
        if first == "</s>":
            expected[()] = chance
            continue
        for second, then in chances(first).items():
            words = (first,) if second == "</s>" else (first, second)
            expected[words] = chance * then
    expected = {words: 3000 * chance for words, chance in expected.items() if chance}
    rng = np.random.default_rng(0)
    drawn = [model.sample(max_words=2, seed=rng, **options) for _ in range(3000)]
    counts = dict.fromkeys(expected, 0)
    for each in drawn:
        counts[tuple(each.words)] += 1
    assert chisquare(list(counts.values()), list(expected.values())).pvalue > 1e-6
    for each in drawn[:20]:
        scored = [*each.words, "</s>"] if each.ended else each.words
        assert each.log_prob == pytest.approx(math.log(p(*scored)))


def test_samples_repeat_with_their_seed_and_hold_no_unknown_word(model):
    first = [model.sample("a", seed=i).words for i in range(50)]
    assert first == [model.sample("a", seed=i).words for i in range(50)]
    assert len(set(map(tuple, first))) > 5
    assert not any("<unk>" in words for words in first)
    assert all(model.sample(seed=i, k=1).words == ["a", "b"] for i in range(5))
    for near_zero in (0.01, 1e-320):
        cold = [model.sample(seed=i, temperature=near_zero).words for i in range(10)]
        assert cold == [["a", "b"]] * 10
    fraction, short, half = (
        model.sample(seed=3, temperature=t) for t in (Fraction(1, 2), np.float32(0.5), 0.5)
    )
    assert fraction == short == half


def test_greedy_takes_the_best_word_at_every_step(model):
    found = model.greedy()
    assert (found.words, found.ended) == (["a", "b"], True)
    assert found.log_prob == pytest.approx(math.log(p("a", "b", "</s>")))
    assert model.greedy(max_words=1) == (["a"], pytest.approx(math.log(0.4)), False)


def test_a_wide_beam_finds_the_best_sentences(model):
    words = ["a", "b", "c"]
    sentences = [list(s) for n in range(5) for s in itertools.product(words, repeat=n)]
    best = sorted(sentences, key=lambda s: -p(*s, "</s>"))[:6]
    found = model.beam(width=60, n=6, max_words=5)
    assert [each.words for each in found] == best
    for each in found:
        assert each.ended
        assert each.log_prob == pytest.approx(math.log(p(*each.words, "</s>")))


def test_a_beam_finds_no_sentence_that_is_impossible():
    """Also if it is wider than there are possible words, so that impossible ones are among the best."""
    table = np.array([[0, 0, 1, 0, 0], [0.2] * 5, [0.5, 0, 0, 0.5, 0], [0, 0, 1, 0, 0], [0.2] * 5])
    with np.errstate(divide="ignore"):
        found = Tiny(table).beam(width=100, n=10, max_words=3)
    sentences = [(["a"], True), (["a", "b", "a"], False)]
    assert [(each.words, each.ended) for each in found] == sentences
    assert [each.log_prob for each in found] == pytest.approx([math.log(0.5)] * 2)


def test_generation_is_refused_where_only_unknown_words_are_possible():
    table = np.eye(5)[[1] * 5]
    with np.errstate(divide="ignore"):
        model = Tiny(table)
    assert model.vocabulary.unknown_id == 1
    for act in (model.greedy, model.beam, model.sample):
        with pytest.raises(ConfigurationError, match="no word but <unk>"):
            act()
    assert model.sample(unknown=True, max_words=2).words == ["<unk>", "<unk>"]


@pytest.mark.parametrize(
    "act",
    [
        lambda m: m.top_k("a", 0),
        lambda m: m.sample(temperature=0),
        lambda m: m.sample(k=0),
        lambda m: m.sample(max_words=0),
        lambda m: m.beam(width=0),
        lambda m: m.beam(n=0),
        lambda m: m.top_k(k=2.5),
        lambda m: m.beam(width=math.nan),
        lambda m: m.sample(k="3"),
        lambda m: m.sample(max_words=True),
        lambda m: m.sample(temperature="1"),
        lambda m: m.sample(temperature=Fraction(1, 10**400)),
        lambda m: m.sample(temperature=10**400),
        lambda m: m.sample(seed=-1),
        lambda m: m.sample(seed="one"),
        lambda m: m.rescore([("a", 1)], weight=None),
        lambda m: m.rescore([("a", 1)], word_bonus="1"),
    ],
)
def test_settings_of_generation_and_rescoring_out_of_range_are_refused(model, act):
    with pytest.raises(ConfigurationError):
        act(model)


def test_an_impossible_hypothesis_has_its_place_without_the_model_and_no_sum_is_nan(
    model, monkeypatch
):
    log_probs = [np.array([-np.inf]), np.array([-1.0])]
    monkeypatch.setattr(type(model), "token_log_probs", lambda *_: log_probs)
    found = model.rescore([("a", 1.0), ("b", 5.0)], weight=0.0)
    assert [each.total for each in found] == [5.0, 1.0]
    for score, weight in ((math.inf, 1.0), (0.0, math.nan), (math.nan, 1.0)):
        with pytest.raises(DataError, match="total of hypothesis 1 is nan"):
            model.rescore([("a", score), ("b", 1.0)], weight=weight)


def test_rescoring_adds_the_model_to_the_own_scores(model):
    hypotheses = [("a b", -1.0), (["c", "c"], -0.5), ("a b", -1.0)]
    found = model.rescore(hypotheses, weight=0.5, word_bonus=0.1)
    for each in found:
        words = each.sentence.split() if isinstance(each.sentence, str) else each.sentence
        lm = math.log(p(*words, "</s>"))
        assert each.log_prob == pytest.approx(lm)
        assert each.total == pytest.approx(each.score + 0.5 * lm + 0.2)
    assert [each.sentence for each in found] == ["a b", "a b", ["c", "c"]]
    flipped = model.rescore(hypotheses, weight=0.0)
    assert flipped[0].sentence == ["c", "c"]
    assert model.rescore([]) == []
    with pytest.raises(DataError, match="hypothesis 2 is nan"):
        model.rescore([("a", -1.0), ("b", math.nan)])
    coarse = model.rescore(hypotheses, weight=np.float32(0.5), word_bonus=Fraction(1, 10))
    assert [repr(each.total) for each in coarse] == [repr(each.total) for each in found]
    assert model.rescore([("a", 1.0)], weight=10**400)[0].total == -math.inf
    for wrong in (["a b", "c"], [("a", "b")], [("a", None)], [("a", 10**400)], 3):
        with pytest.raises(DataError, match=r"give \(sentence, score\) pairs"):
            model.rescore(wrong)


# -- fitting and the card ------------------------------------------------------------------------------


def test_held_out_words_are_counted_as_they_were_written(tmp_path):
    """Even from an iterator, which can be read only once."""
    corpus = Corpus.from_sentences(
        [["a", "b"], ["c"]], vocabulary=Vocabulary(WORDS, [3, 0, 5, 4, 3])
    )
    model = Tiny()
    model.fit(corpus, valid=iter([["a", "zebra"], ["<unk>"]]))
    [figure] = model.figures
    assert (figure["text"], figure["n_oov"], figure["n_words"]) == ("validation text", 2, 3)
    assert model.held_out.n_tokens == 3
    assert model.fitted_on["n_tokens"] == 3


def test_the_card_says_which_words_were_left_out():
    sentences = [["a", "b", "a", "c"]] * 3 + [["d"]]
    for options in ({}, {"min_count": 2}, {"min_count": 2, "max_vocabulary": 2}):
        fitted = KneserNey(order=1).fit(Corpus.from_sentences(sentences, **options))
        told = fitted.card["vocabulary"]
        limits = {name: told[name] for name in ("min_count", "max_vocabulary") if name in told}
        assert limits == options


def test_the_card_states_bases_and_policies(model):
    model.fitted_on, model.figures = {}, []
    model.record([["a"]], "one word")
    card = model.card
    assert {"log_base", "end_of_sentence", "out_of_vocabulary"} <= card.keys()
    assert card["figures"][0]["text"] == "one word"
    assert card["figures"][0]["value"] == model.perplexity([["a"]])
