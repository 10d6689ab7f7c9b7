"""Marks and spaces in what is scored: as the kenlm module takes them, by hand and beside the module itself."""

import itertools
import random

import pytest

from tacenda import Corpus
from tacenda_lm import HLBL, KneserNey, Mixture, State

#: By hand: the back-off of ``<s>`` is -0.3, that of ``a`` -0.1; ``<s>`` itself has 0, as lmplz writes it.
ARPA = """\\data\\
ngram 1=6
ngram 2=5

\\1-grams:
-1\t<unk>\t0
0\t<s>\t-0.3
-0.4\t</s>\t0
-0.7\ta\t-0.1
-0.5\tb\t-0.2
-0.9\tx\u00a0y\t-0.15

\\2-grams:
-0.3\t<s> a
-0.2\ta b
-0.25\tb </s>
-0.45\tb b
-0.35\tx\u00a0y b

\\end\\
"""
WORDS = ["a", "b", "x\u00a0y", "<s>", "</s>", "<unk>", "zebra", "u\u3000v"]


@pytest.fixture
def path(write_file):
    return write_file("model.arpa", ARPA)


@pytest.fixture
def lm(path):
    with pytest.warns(UserWarning, match="not normalized"):
        return KneserNey.from_arpa(path)


@pytest.mark.parametrize(
    ("sentence", "bos", "eos", "expected"),
    [
        ("a", True, True, [-0.3, -0.1 - 0.4]),
        # the word after </s> has no context, not even that of the beginning of a sentence
        ("b </s> a", True, False, [-0.3 - 0.5, -0.25, -0.7]),
        ("</s> </s>", True, True, [-0.3 - 0.4, -0.4, -0.4]),
        # <s> costs the back-off before it and what the file gives it, and begins a sentence
        ("<s> a", True, False, [-0.3 + 0, -0.3]),
        ("<s> a", False, False, [0, -0.3]),
        ("a <s> a", True, False, [-0.3, -0.1, -0.3]),
        ("<s> <s> b", False, False, [0, -0.3, -0.3 - 0.5]),
        # a no-break space and an ideographic one belong to words
        ("a x\u00a0y b", True, False, [-0.3, -0.1 - 0.9, -0.35]),
        ("x y", True, False, [-0.3 - 1, -1]),
        ("u\u3000v b", False, False, [-1, -0.5]),
        ("a\u00a0b", False, False, [-1]),
    ],
)
def test_marks_and_spaces_by_hand(lm, sentence, bos, eos, expected):
    rows = list(lm.full_scores(sentence, bos=bos, eos=eos))
    assert [row.log_prob for row in rows] == pytest.approx(expected, abs=1e-6)
    assert lm.score(sentence, bos=bos, eos=eos) == pytest.approx(sum(expected), abs=1e-6)
    state = lm.start() if bos else lm.null()
    words = sentence.split(" ") + ["</s>"] * eos
    found = [lm.BaseScore(state, word, state) for word in words]
    assert found == pytest.approx(expected, abs=1e-6)


def test_the_state_after_a_mark(lm):
    state = State()
    lm.BaseScore(lm.state_after("a"), "</s>", state)
    assert state == lm.null()
    lm.BaseScore(lm.state_after("a"), "<s>", state)
    assert state == lm.start()


def test_a_batch_scores_marks_as_sentences_alone(lm):
    sentences = ["a </s> a", "b", "<s> a", ["x\u00a0y", "<s>"], "</s>"]
    expected = [lm.score(sentence) for sentence in sentences]
    assert lm.score_batch(sentences) == pytest.approx(expected)


def test_a_model_that_was_fitted_never_predicts_the_beginning(tmp_path):
    lm = KneserNey(order=3).fit([["a", "b"], ["b", "a", "b"]])
    assert "<s>" in lm
    penalty = lm.score("zebra", eos=False) - lm.score("zebra", bos=False, eos=False)
    assert lm.score("<s>", eos=False) == pytest.approx(-99 + penalty)
    assert lm.score("a </s> a b", bos=False, eos=False) == pytest.approx(
        lm.score("a", bos=False) + lm.score("a b", bos=False, eos=False)
    )
    own = KneserNey(order=2).fit([["<s>", "a"], ["a"]], marks="keep")
    assert own.score("<s>") > -5, "it is a word where the text was told to have it as one"


def test_models_without_back_offs_have_the_same_marks():
    text = [["a", "b"], ["b", "a"]] * 5
    hlbl = HLBL(width=2, copies=1, epochs=1).fit(text)
    for lm in (hlbl, Mixture([hlbl, KneserNey(order=2).fit(text)])):
        assert "<s>" in lm
        assert lm.score("<s>", eos=False) == pytest.approx(-99)
        parts = lm.score("a", eos=True), lm.score("b", bos=False, eos=False)
        assert lm.score("a </s> b", eos=False) == pytest.approx(sum(parts), abs=1e-5)


def test_what_the_file_says_of_the_beginning_is_saved_and_written(lm, tmp_path):
    lm.save(tmp_path / "saved")
    lm.to_arpa(tmp_path / "again.arpa")
    assert "0\t<s>\t" in (tmp_path / "again.arpa").read_text(encoding="utf8")
    with pytest.warns(UserWarning, match="not normalized"):
        written = KneserNey.from_arpa(tmp_path / "again.arpa")
    for again in (KneserNey.load(tmp_path / "saved"), written):
        assert again.score("a <s> x\u00a0y") == pytest.approx(lm.score("a <s> x\u00a0y"), abs=1e-6)
        assert again.string_tokenizer == "ascii_whitespace"


def test_strings_are_split_by_the_rule_of_the_model(write_file, tmp_path):
    line = "a\u00a0b a"
    file = write_file("t.txt", f"{line}\n")
    unicode_rule = KneserNey(order=2).fit(file)
    assert len(unicode_rule.surprisal(line)) == 3
    corpus = Corpus.from_text(file, tokenizer="ascii_whitespace")
    KneserNey(order=2).fit(corpus).save(tmp_path / "m")
    ascii_rule = KneserNey.load(tmp_path / "m")
    assert ascii_rule.string_tokenizer == "ascii_whitespace"
    for lm in (ascii_rule, Mixture([ascii_rule, unicode_rule][:1])):
        assert len(lm.surprisal(line)) == len(lm.entropy(line)) == len(lm.ranks(line)) == 2
        assert lm.perplexity(line).n_words == lm.perplexity(file).n_words == 2
        assert lm.perplexity(line, tokenizer="whitespace").n_words == 3
        assert lm.state_after(line) == lm.state_after(["a\u00a0b", "a"])
        assert lm.score_batch([line])[0] == pytest.approx(lm.score(line))


# -- beside the kenlm module ---------------------------------------------------------------------------


def test_strings_are_scored_as_by_the_module(kenlm, lm, path):
    theirs = kenlm.Model(str(path))
    rng = random.Random(0)
    sentences = [" ".join(words) for n in range(3) for words in itertools.product(WORDS, repeat=n)]
    sentences += ["\u2003".join(rng.choices(WORDS, k=3)) for _ in range(20)]
    sentences += [" \t".join(rng.choices(WORDS, k=8)) for _ in range(200)]
    for sentence in sentences:
        for bos, eos in itertools.product((True, False), repeat=2):
            expected = list(theirs.full_scores(sentence, bos=bos, eos=eos))
            found = list(lm.full_scores(sentence, bos=bos, eos=eos))
            assert [row[1:] for row in found] == [row[1:] for row in expected], sentence
            assert [row[0] for row in found] == pytest.approx(
                [row[0] for row in expected], abs=1e-5
            )
            total = theirs.score(sentence, bos=bos, eos=eos)
            assert lm.score(sentence, bos=bos, eos=eos) == pytest.approx(total, abs=1e-4)


def test_words_are_known_and_states_equal_as_in_the_module(kenlm, lm, path):
    theirs = kenlm.Model(str(path))
    for word in WORDS:
        assert (word in lm) == (word in theirs), word
    histories = [words for n in range(4) for words in itertools.product(WORDS[:5], repeat=n)]
    ours, expected = {}, {}
    for words in histories:
        a, b = State(), kenlm.State()
        lm.NullContextWrite(a)
        theirs.NullContextWrite(b)
        for word in words:
            lm.BaseScore(a, word, a)
            after = kenlm.State()
            theirs.BaseScore(b, word, after)
            b = after
        ours.setdefault(a, set()).add(words)
        expected.setdefault(b, set()).add(words)
    assert sorted(map(sorted, ours.values())) == sorted(map(sorted, expected.values()))
