"""The n-gram models against loops over dictionaries, and against published figures."""

import math
import os
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacenda
from support.processes import run_python
from tacenda import Corpus, datasets
from tacenda.errors import ArtifactError, ConfigurationError, DataError
from tacenda_lm import KneserNey, State
from tacenda_lm.ngram.smoothing import FALLBACK, good_turing_ratios, kneser_ney_discounts

TEXTS = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "d", "<unk>"]), min_size=1, max_size=7),
    min_size=1,
    max_size=12,
)


def varied(n=400, seed=0):
    """Sentences whose counts of counts give all discounts."""
    rng = np.random.default_rng(seed)
    return [
        [f"w{w}" for w in np.minimum(rng.zipf(1.4, rng.integers(1, 9)) - 1, 200)] for _ in range(n)
    ]


def assert_as_by(oracle, model, sentences):
    for sentence in sentences:
        known = [word if word in model.vocabulary else "<unk>" for word in sentence]
        np.testing.assert_allclose(
            model.token_log_probs([sentence])[0], oracle.log_probs(known), rtol=0, atol=2e-5
        )


@pytest.mark.parametrize("smoothing", ["interpolated", "backoff"])
@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_every_probability_is_that_of_the_equations(oracles, order, smoothing):
    text = varied()
    model = KneserNey(order=order, smoothing=smoothing).fit(text)
    assert all(model.fitted_on["discounts_from_text"][:4]), "the text is too small for this test"
    interpolated = smoothing == "interpolated"
    oracle = oracles.KneserNeyOracle(text, order, model.vocabulary.words, interpolated)
    assert_as_by(oracle, model, [*text[:40], [], ["nothing", "w1", "w0"], ["w0"] * 9])


@settings(max_examples=60)
@given(text=TEXTS, order=st.integers(1, 4))
def test_small_texts_take_the_fallback_and_agree_too(oracles, text, order):
    model = KneserNey(order=order).fit(text)
    oracle = oracles.KneserNeyOracle(text, order, model.vocabulary.words)
    assert_as_by(oracle, model, (text[0], [], ["a", "b", "c", "d"], ["d", "<unk>"]))


@settings(max_examples=40)
@given(
    text=TEXTS,
    order=st.integers(1, 5),
    smoothing=st.sampled_from(["interpolated", "backoff", "good_turing"]),
    min_count=st.integers(1, 3),
)
def test_every_distribution_sums_to_one(text, order, smoothing, min_count):
    model = KneserNey(order=order, smoothing=smoothing, min_count=min_count).fit(text)
    assert model.check_normalized([*text, ["d", "c", "b"]]) < 1e-5


@pytest.mark.parametrize("smoothing", ["interpolated", "backoff"])
def test_a_text_without_an_n_gram_of_four_gives_its_discounts_as_in_lmplz(oracles, smoothing):
    """D(3+) is 3 then; a back-off model, which lmplz has not, would give what occurs three times no probability."""
    counts = np.bincount(np.repeat([1, 2, 3], [10, 5, 2]), minlength=6)
    y = 10 / (10 + 2 * 5)
    expected = [0, 1 - 2 * y * 5 / 10, 2 - 3 * y * 2 / 5, 3]
    found, from_text = kneser_ney_discounts(counts)
    assert from_text
    np.testing.assert_allclose(found, expected)
    assert kneser_ney_discounts(counts, interpolates=False)[1] is False
    text = [["a", "b"]] * 3 + [["c", "d"]] * 2 + [["e"]]
    model = KneserNey(order=2, smoothing=smoothing).fit(text)
    interpolated = smoothing == "interpolated"
    assert (model.fitted_on["discounts"][1][3] == 3) == interpolated
    oracle = oracles.KneserNeyOracle(text, 2, model.vocabulary.words, interpolated)
    assert_as_by(oracle, model, (*text, ["e", "a", "b", "c"]))
    assert model.check_normalized(text) < 1e-5


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "counts", [[], [0, 0], [1, 1, 1], [2, 2, 3, 4], [1, 1, 3, 4], [1, 2, 3, 4, 4, 4, 4, 4]]
)
def test_odd_counts_of_counts_take_the_fallback(counts):
    found, from_text = kneser_ney_discounts(np.bincount(np.array(counts, np.int64), minlength=6))
    assert (found.tolist(), from_text) == ([0.0, *FALLBACK], False)


def test_good_turing_ratios_conserve_the_mass_of_the_unseen():
    """Katz: what the counts up to k lose is n_1, the Good-Turing mass of what was not seen."""
    n = {1: 1000, 2: 300, 3: 140, 4: 80, 5: 50, 6: 36, 7: 27, 8: 20}
    ratios, from_text = good_turing_ratios(np.array([0, *n.values()]), 7)
    assert from_text
    lost = sum(n[r] * r * (1 - ratios[r]) for r in range(1, 8))
    assert lost == pytest.approx(n[1], rel=1e-12)


def test_katz_discounts_seen_words_and_backs_off_for_the_others():
    text = varied()
    model = KneserNey(order=2, smoothing="good_turing").fit(text)
    pairs = Counter(p for s in text for p in zip(["<s>", *s], [*s, "</s>"], strict=True))
    firsts = Counter(word for s in text for word in ["<s>", *s])
    ratios = model.fitted_on["discounts"][1]
    for (first, second), count in list(pairs.items())[:50]:
        if first != "<s>":
            kept = count if count > 7 else count * ratios[count]
            state = model.state_after([first], bos=False)
            found = model.log_prob([state], [model.vocabulary.id_of(second)])[0]
            assert found == pytest.approx(math.log(kept / firsts[first]), abs=1e-5)


def test_rare_n_grams_are_not_listed_but_their_mass_is_kept():
    text = varied()
    small = KneserNey(order=4, min_count=3).fit(text)
    counts = Counter(
        tuple(m[i : i + 3]) for m in (["<s>", *s, "</s>"] for s in text) for i in range(len(m) - 2)
    )
    assert small.table.sizes[2] == sum(count >= 3 for count in counts.values())
    assert small.check_normalized(text[:20]) < 1e-5
    # asked for an unlisted n-gram it answers with its last words, and keeps the context that counts
    assert {len(state.value) for state in map(small.state_after, text)} <= {1, 2, 3}


def test_a_written_unknown_word_is_learned_from_as_the_unknown_word():
    model = KneserNey(order=2).fit([["a", "<unk>", "b"], ["<unk>", "a"]] * 3)
    after_a, after_b = (model.next_word(word)[model.vocabulary.unknown_id] for word in "ab")
    assert after_a > after_b


def test_a_written_end_ends_the_sentence():
    sentences = [["a", "b", "</s>", "c", "a"], ["</s>", "b", "</s>"]]
    cut = KneserNey(order=3).fit(sentences, marks="keep")
    apart = KneserNey(order=3).fit([["a", "b"], ["c", "a"], ["b"]])
    assert cut.table.sizes == apart.table.sizes
    for word in apart.vocabulary.words:
        assert cut.score(word) == pytest.approx(apart.score(word), abs=1e-6)


def test_a_text_of_ends_only_teaches_nothing_and_breaks_nothing():
    model = KneserNey(order=3).fit([["</s>"], ["</s>", "</s>"]], marks="keep")
    assert model.check_normalized() < 1e-6
    assert model.next_word().tolist() == pytest.approx([0.5, 0.5])


def test_the_state_of_another_model_reads_no_foreign_memory():
    long = KneserNey(order=5).fit([["a", "b", "c", "d", "e"]] * 2).state_after("a b c d")
    short = KneserNey(order=2).fit([["a"], ["b", "a"]])
    for state in (long, State((10**9, 5 * 10**8)), State((-5,))):
        assert np.exp(short.log_probs([state])).sum() == pytest.approx(1, abs=1e-6)
        assert short.log_prob([state], [0])[0] <= 0
        assert len(short.advance(state, 0).value) <= 1


def test_states_forget_what_no_longer_matters():
    model = KneserNey(order=4).fit([["a", "b", "c"], ["b", "c", "a"]])
    assert model.state_after("c b") == model.state_after("b", bos=False)
    assert model.state_after("a b") != model.state_after("b", bos=False)
    assert model.advance(model.state_after("a b"), model.vocabulary.boundary_id) == model.start()


# -- published figures ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ptb():
    if not os.environ.get("TACENDA_DATA"):
        pytest.skip("TACENDA_DATA is not set")
    try:
        return datasets.locate("ptb")
    except DataError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def ptb_train(ptb):
    return Corpus.from_text(ptb["train"])


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "valid", "test"),
    [
        (2, 199.0, 185.7),
        (3, 157.8, 148.3),
        (4, 149.9, 142.7),
        (5, 148.0, 141.19),
        (6, 147.4, 140.8),
    ],
)
def test_kneser_ney_has_the_perplexity_of_lmplz(ptb, ptb_train, order, valid, test):
    model = KneserNey(order=order).fit(ptb_train)
    found = model.perplexity(ptb["test"])
    assert found == pytest.approx(test, abs=0.05)
    assert (found.n_tokens, found.n_oov) == (82_430, 4_794)
    assert model.perplexity(ptb["dev"]) == pytest.approx(valid, abs=0.05)
    assert model.check_normalized(["the company said it expects the <unk>"]) < 1e-6


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(("order", "test"), [(3, 165.2), (5, 162.3)])
def test_good_turing_has_the_perplexity_of_srilm(ptb, ptb_train, order, test):
    """As published with the recurrent network language model toolkit; SRILM drops rare n-grams."""
    model = KneserNey(order=order, smoothing="good_turing", min_count=2).fit(ptb_train)
    assert model.perplexity(ptb["test"]) == pytest.approx(test, abs=0.15)


@pytest.mark.parametrize("limit", [0, 1e300])
def test_a_memory_limit_that_is_none_is_refused(limit):
    with pytest.raises(ConfigurationError, match=r"memory_gb must be .*at most 1000000000"):
        KneserNey(memory_gb=limit)


def test_checkpoints_are_refused_by_a_model_that_keeps_none(tmp_path):
    with pytest.raises(ConfigurationError, match="leave out checkpoints"):
        KneserNey().fit([["a", "b"]], checkpoints=tmp_path)
    with pytest.raises(ConfigurationError, match="needs checkpoints"):
        KneserNey().fit([["a", "b"]], resume=True)


def large(tmp_path):
    """A saved model of more words than are read when it is opened."""
    words = [f"w{i}" for i in range(5000)]
    model = KneserNey(order=2).fit([words[i : i + 10] for i in range(0, 5000, 5)])
    model.save(tmp_path / "model")
    return model


def test_strings_are_scored_without_unpacking_a_large_vocabulary(tmp_path):
    model = large(tmp_path)
    opened = tacenda.load(tmp_path / "model")
    lines = ["w1 w2 w3", "w4999", "none w7"]
    assert opened.score_batch(lines).tolist() == model.score_batch(lines).tolist()
    assert [opened.score(line) for line in lines] == [model.score(line) for line in lines]
    assert "words" not in vars(opened.vocabulary)
    assert opened.vocabulary == model.vocabulary


@pytest.mark.parametrize("use", [lambda model: model.score("w1 w2"), lambda model: "w1" in model])
def test_a_large_vocabulary_that_is_damaged_is_refused_when_it_is_used(tmp_path, use):
    model = large(tmp_path)
    arrays = model.arrays()
    arrays["vocabulary.text"] = np.full_like(arrays["vocabulary.text"], ord("a"))
    opened = KneserNey.from_arrays(model.config_dict(), arrays)
    with pytest.raises(ArtifactError, match="damaged"):
        use(opened)


def test_a_setting_under_which_numba_does_not_start_is_no_damage_of_a_model(tmp_path):
    KneserNey(order=2).fit(varied()).save(tmp_path / "model")
    code = """
import sys, tacenda
from tacenda.errors import KernelError
try:
    tacenda.load(sys.argv[1]).perplexity([["w1"]])
except KernelError as error:
    print(error)
"""
    found = run_python("-c", code, tmp_path / "model", NUMBA_NUM_THREADS="0")
    assert "environment variables NUMBA_*" in found.stdout, found.stderr
