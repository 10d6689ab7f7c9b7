"""The first lines of a process, scored in plain Python: the bits of compiled code, without the import of numba."""

import copy

import numpy as np
import pytest

from support.processes import output_of
from tacenda.errors import CorpusError
from tacenda.tokenizers import ASCII_WHITESPACE
from tacenda_lm import KneserNey, LanguageModel, State
from tacenda_lm.ngram import plain, table, words

LINES = [
    "a b c the é 日本 a b c the é 日本 a b c the é",
    "a zebra b <unk> \u00a0c\u3000the",
    "\u200b aa\taa  \ud800 b",
    "a </s> b",
    "<s> a",
    "\ufeffa",
    "",
    " ",
]


def fitted(order, n_lines=300, **options):
    rng = np.random.default_rng(order)
    words = ["a", "b", "c", "the", "é", "日本", "<unk>", "aa", "\u200b"]
    lines = [rng.choice(words, rng.integers(1, 9)).tolist() for _ in range(n_lines)]
    return KneserNey(order=order, **options).fit(lines)


def answers(model):
    """All that follows the words of some lines, to the last bit."""
    found = [model.score_batch(LINES).tolist()]
    for line in LINES:
        found += [model.score(line, bos, eos) for bos in (True, False) for eos in (True, False)]
        found += [list(model.full_scores(line)), model.surprisal(line, eos=True).tolist()]
        state, after = State(), State()
        model.BeginSentenceWrite(state)
        for word in line.split():
            found += [model.BaseFullScore(state, word, after), after.value]
            state, after = after, state
        if line.strip() and "s>" not in line:
            one = model.perplexity(line)
            found += [one.value, one.log_prob, one.log_prob_eos, one.log_prob_oov, one.to_dict()]
    for context in ([], [0], [3, 1], [1, 2, 3, 4, 5, 6, 7]):
        state = model.null()
        for word in context:
            state = model.advance(state, word)
        scores, end = model.score_from(state, np.array([2, 4, 0, 1]))
        found += [scores.tolist(), end.value]
    return found


@pytest.mark.parametrize("tokenizer", [None, ASCII_WHITESPACE])
@pytest.mark.parametrize(
    ("order", "options"),
    [
        *((order, {}) for order in range(1, 7)),
        (3, {"bits": 4}),
        (4, {"prune": 1e-3}),
        (3, {"smoothing": "backoff"}),
    ],
)
def test_plain_code_gives_the_bits_of_compiled_code(monkeypatch, order, options, tokenizer):
    model = fitted(order, **options)
    if tokenizer:
        model.fitted_on["tokenizer"] = tokenizer
    expected = answers(copy.copy(model))
    monkeypatch.setattr(table, "_import_compiled", lambda strings: plain)
    again = copy.copy(model)
    again._scorer = again._begun = None
    assert answers(again) == expected


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("line", ["<s> a", "a <s>", "a </s> a"])
def test_a_mark_is_refused_by_a_model_with_that_word(monkeypatch, line, is_plain):
    own = KneserNey(order=2).fit([["<s>", "a"], ["a"]], marks="keep")
    looked_up = plain if is_plain else words
    monkeypatch.setattr(table, "_import_compiled", lambda strings: looked_up if strings else plain)
    with pytest.raises(CorpusError, match="s> is written"):
        own.perplexity(line)
    assert own.score(line) == pytest.approx(LanguageModel.score(own, line))


@pytest.mark.filterwarnings("ignore:.*not normalized")
@pytest.mark.parametrize("is_plain", [True, False])
def test_a_word_that_rounding_makes_certain_costs_nothing(monkeypatch, write_file, is_plain):
    """With two bits, the log-probability of </s> after a is above zero."""
    unigrams = "-1 <unk>\n-99 <s>\n-0.4 </s>\n-0.7 a 0.39\n-0.52 b\n-0.3 d\n"
    counts, bigrams = "ngram 1=6\nngram 2=2\n", "-2 a d\n-0.1 b d\n"
    text = f"\\data\\\n{counts}\n\\1-grams:\n{unigrams}\n\\2-grams:\n{bigrams}\n\\end\\\n"
    model = KneserNey.from_arpa(write_file("model.arpa", text)).smaller(bits=2)
    if is_plain:
        monkeypatch.setattr(table, "_import_compiled", lambda strings: plain)
    for line in ("a", "a a", "b a"):
        assert model.score(line) == model.score(line, eos=False)
        assert model.score(line) == pytest.approx(model.score(line.split()))
        state = model.start()
        steps = [model.BaseScore(state, word, state) for word in (*line.split(), "</s>")]
        assert model.score(line) == pytest.approx(sum(steps))
        assert model.perplexity(line) == pytest.approx(model.perplexity([line.split()]))


def test_long_lists_of_continuations_are_found(monkeypatch):
    """Blocks of contexts whose distances need more bits than a record has use lists of places."""
    rng = np.random.default_rng(1)
    words = [f"w{i}" for i in range(3000)]
    often = [["a", word] for word in words] + rng.choice(words, (500, 3)).tolist()
    model = KneserNey(order=3).fit(often)
    assert model.table.layout[:, 4].any()
    line = " ".join(["a", "w7", *rng.choice(words, 60)])
    expected = model.score(line)
    monkeypatch.setattr(table, "_import_compiled", lambda strings: plain)
    model._scorer = None
    assert model.score(line) == expected


FIRST = """
import sys, tacenda
model = tacenda.load(sys.argv[1])
print(model.score("a b c the"))
print(model.perplexity("a zebra b").value)
assert not {"numba", "scipy", "torch", "spacy"} & sys.modules.keys()
model.score_batch(["a b c the"] * 1000)
assert "numba" in sys.modules
print(model.score("a b c the"))
print(model.perplexity("a zebra b").value)
"""


def test_numba_is_imported_only_when_many_lines_have_come(tmp_path):
    """A table this large is not checked when it is loaded."""
    rng = np.random.default_rng(0)
    lines = rng.choice(["a", "b", "c", "the", *map(str, range(400))], (9000, 6)).tolist()
    model = KneserNey(order=3).fit(lines)
    model.save(tmp_path / "model")
    first, second = np.array_split(output_of("-c", FIRST, tmp_path / "model").split(), 2)
    assert first.tolist() == second.tolist()
    assert float(first[0]) == model.score("a b c the")
