"""The table of words against one made by hand, and against what minicons calls the surprisal of a word."""

import csv
import io
import itertools
import math
import re
import sys
import warnings
from types import ModuleType

import numpy as np
import pytest

import tacenda
from tacenda import Corpus, Vocabulary
from tacenda.errors import ConfigurationError, CorpusError, DataError
from tacenda_lm import (
    KneserNey,
    LanguageModel,
    Mixture,
    State,
    UnknownWords,
    read_items,
    surprisal_table,
)
from tacenda_lm.surprisal.words import bare_length, bare_tokens, sentence_starts, text_words

pytestmark = pytest.mark.filterwarnings("ignore")

WORDS = ["</s>", "<unk>", "a", "b", ".", '"']
#: p(next | word before) in the order of WORDS; the row of </s> is the start. A third party's model in the least lines.
TABLE = np.array(
    [
        [1, 1, 8, 4, 1, 1],
        [4, 1, 4, 4, 2, 1],
        [2, 1, 1, 8, 3, 1],
        [1, 1, 4, 2, 7, 1],
        [8, 1, 2, 2, 1, 2],
        [1, 2, 8, 3, 1, 1],
    ]
) / 16  # fmt: skip


class Tiny(LanguageModel):
    name = "tiny"
    fitted_on = {"tokenizer": "words"}  # noqa: RUF012

    def __init__(self):
        self._vocabulary = Vocabulary(WORDS, [5, 2, 4, 8, 1, 1])

    vocabulary = property(lambda self: self._vocabulary)

    def start(self):
        return State(0)

    def advance(self, state, word):
        return State(int(word))

    def log_probs(self, states):
        return np.log(TABLE)[[state.value for state in states]]

    def config_dict(self):
        return {}


def bits(before, word):
    return -math.log2(TABLE[WORDS.index(before), WORDS.index(word)])


@pytest.fixture
def model():
    return Tiny()


@pytest.fixture
def fitted():
    text = ["The cat sat on the mat, and didn't stir.", "The dog sat.", "A cat ran."] * 4
    return KneserNey(order=3).fit(Corpus.from_text(text, tokenizer="words"))


@pytest.fixture
def items(write_file):
    """The items of a file with this content."""

    def items(content, name="items.csv", **options):
        return read_items(write_file(name, content), **{"region": "word", **options})

    return items


def values(table, name):
    return list(table[name]) if isinstance(table[name], list) else table[name].tolist()


def test_a_table_made_by_hand(model):
    """Two sentences of two lines: every figure here was written down from TABLE and the counts."""
    table = surprisal_table(model, 'a "b".\nb a', previous=1)
    assert len(table) == 4
    expected = {
        "text": ["1"] * 4,
        "sentence": [1, 1, 2, 2],
        "word_index": [1, 2, 3, 4],
        "start": [0, 2, 7, 9],
        "end": [1, 6, 8, 10],
        "word": ["a", '"b".', "b", "a"],
        # -log2 of 8/16; of b after the quote 3/16; of b after the start 4/16; of a after b 4/16
        "surprisal": [1.0, -math.log2(3 / 16), 2.0, 2.0],
        # the quote after a 1/16, b after it 3/16, the quote after b 1/16, the full stop after that 1/16
        "surprisal_with_punctuation": [1.0, 12 - math.log2(3 / 16), 2.0, 2.0],
        "known": [True] * 4,
        # 4 and 8 of 16 tokens, sentence ends left out
        "log_frequency": [-2.0, -1.0, -1.0, -2.0],
        "length": [1, 1, 1, 1],
    }
    for name, column in expected.items():
        assert values(table, name) == pytest.approx(column), name
    for name in ("surprisal", "surprisal_with_punctuation", "known", "log_frequency", "length"):
        assert values(table, f"{name}_prev1") == pytest.approx([None, *expected[name][:3]]), name
    assert table.columns == (*expected, *(f"{name}_prev1" for name in list(expected)[6:]))
    assert table.notes == ()


def minicons_words(model, text, tokenize):
    """As ``word_score_tokenized(..., bos_token=True, surprisal=True, base_two=True)``: what stands between whitespace
    has the sum of the bits of its tokens, the first given the beginning of the text."""
    before, found = "</s>", []
    for word in text.split():
        scores = []
        for token in tokenize(word):
            scores.append(bits(before, token))
            before = token
        found.append((word, sum(scores)))
    return found


def test_a_word_has_what_minicons_gives_it(model):
    text = 'a "b". b a. "a" b "a'
    table = surprisal_table(model, text)
    expected = minicons_words(model, text, tacenda.tokenizers.split_words)
    assert values(table, "word") == [word for word, _ in expected]
    assert values(table, "surprisal_with_punctuation") == pytest.approx(
        [score for _, score in expected]
    )


def test_words_of_a_text_add_up_to_its_log_probability(fitted):
    text = "The cat, and the dog, didn't stir.\nA mat ran."
    table = surprisal_table(fitted, text)
    sentences = [tacenda.tokenizers.split_words(line) for line in text.split("\n")]
    total = sum(scores[:-1].sum() for scores in fitted.token_log_probs(sentences))
    assert sum(values(table, "surprisal_with_punctuation")) == pytest.approx(-total / math.log(2))
    assert values(table, "word")[5] == "didn't"
    assert values(table, "surprisal")[5] == pytest.approx(
        fitted.surprisal(sentences[0])[[7, 8]].sum()  # did n't
    )


def test_figures_of_the_words_before_stay_in_their_text(model):
    table = surprisal_table(model, {0: "a b", 1: "b a b"}, previous=2)
    assert values(table, "text") == ["0"] * 2 + ["1"] * 3
    own = values(table, "surprisal")
    assert values(table, "surprisal_prev1") == [None, own[0], None, own[2], own[3]]
    assert values(table, "surprisal_prev2") == [None, None, None, None, own[2]]
    assert values(table, "known_prev2") == [None, None, None, None, True]
    assert "surprisal_prev1" not in surprisal_table(model, "a b", previous=0).columns
    assert values(surprisal_table(model, "a", previous=3), "length_prev3") == [None]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("  The cat,\n\nand  didn't\t«stir»  \n", [1, 1, 2, 2, 2]),
        ("\ufeffThe cat\r\n\r\nand\r\n the dog.\r\n", [1, 1, 2, 3, 3]),
    ],
    ids=["plain", "of Windows"],
)
def test_spans_are_places_in_the_text(fitted, text, sentences):
    table = surprisal_table(fitted, text)
    cut = [text[a:b] for a, b in zip(values(table, "start"), values(table, "end"), strict=True)]
    assert cut == values(table, "word") == text.removeprefix("\ufeff").split()
    assert values(table, "sentence") == sentences
    assert values(table, "known")[0]


def test_spans_in_a_file_do_not_count_its_mark_and_the_first_byte_of_its_line_ends(
    fitted, write_file
):
    text = "  The cat,\n\nand  didn't\t«stir»  \n"
    path = write_file("story.txt", "\ufeff" + text.replace("\n", "\r\n"))
    from_file = surprisal_table(fitted, path)
    assert set(values(from_file, "text")) == {"story.txt"}
    assert values(from_file, "start") == values(surprisal_table(fitted, text), "start")


def test_a_word_of_several_tokens_is_known_if_all_are_and_has_no_frequency_without_counts(fitted):
    with pytest.warns(UserWarning, match=r"log_frequency of 2 of 3 words is empty.*--count-words"):
        table = surprisal_table(fitted, "didn't \"shouldn't mat,")
    assert values(table, "known") == [True, False, True]
    counts = dict(zip(fitted.vocabulary.words, fitted.vocabulary.counts.tolist(), strict=True))
    n = sum(counts.values()) - counts["</s>"]
    expected = [None, None, pytest.approx(math.log2(counts["mat"] / n))]
    assert values(table, "log_frequency") == expected


COUNTED = [
    "\"I didn't,\" he said; well-known, they didn't.",
    "The well-known man cannot go (didn't he?), and a well-known one can not.",
    "Didn't they? The once-seen man cannot.",
]


@pytest.mark.parametrize("lowercase", [False, True])
def test_a_word_of_several_tokens_is_as_frequent_as_it_is_written(tmp_path, lowercase):
    counting = {"tokenizer": "words", "count_words": True, "lowercase": lowercase}

    def fit(**options):
        return KneserNey(order=2).fit(Corpus.from_text(COUNTED, **counting, **options))

    model = fit()
    model.save(tmp_path / "m")
    loaded = tacenda.load(tmp_path / "m")
    cached = [fit(cache=tmp_path / "cache", cache_key="1") for _ in range(2)]
    mixture = Mixture({"a": loaded, "b": model})
    written = {
        "didn't": 3, "Didn't": 1, "well-known": 3, "cannot": 2, "once-seen": 1, "never-seen": 1,
    }  # fmt: skip
    if lowercase:
        written |= {"didn't": 4, "Didn't": 4}
    text = " ".join(f"({word}," for word in written)
    counts = model.vocabulary.counts
    n = counts.sum() - counts[model.vocabulary.boundary_id]
    expected = [pytest.approx(math.log2(times / n)) for times in written.values()]
    for each in (model, loaded, *cached, mixture):
        table = surprisal_table(each, text)
        other = surprisal_table(each, "didn't", tokenizer=lambda word: ["did", "n't"])
        assert values(table, "log_frequency") == expected
        assert not any("log_frequency" in note for note in table.notes)
        assert values(other, "log_frequency") == [None]


def test_the_frequency_of_a_region_is_the_sum_of_those_of_its_words(fitted):
    items = read_items(["word", "The cat", '"sat, on"', "didn't stir."], region="word")
    with pytest.warns(UserWarning, match="log_frequency of 1 of 6 words"):
        table = surprisal_table(fitted, items)
    words = surprisal_table(fitted, "The cat sat on stir")
    alone = dict(zip(words["word"], words["log_frequency"].tolist(), strict=True))
    expected = [alone["The"] + alone["cat"], alone["sat"] + alone["on"], None]
    assert values(table, "log_frequency") == pytest.approx(expected)


def test_a_word_with_unknown_punctuation_is_not_known(fitted):
    with pytest.warns(UserWarning, match="1 of 4 tokens are unknown"):
        table = surprisal_table(fitted, "The cat; sat")
    assert values(table, "known") == [True, False, True]


def test_unknown_words_cost_what_was_asked_for(model):
    def found(**options):
        return surprisal_table(model, "a ba b", **options)

    whole = bits("a", "<unk>")
    assert values(found(unknown="class"), "surprisal")[1] == pytest.approx(whole)
    even = found(unknown="even", unseen_types=64)
    assert values(even, "surprisal")[1] == pytest.approx(whole + 6)
    for way in (even, found(), found(unknown="class")):  # an unknown word counts once, of 16
        assert values(way, "log_frequency") == pytest.approx([-2, -4, -1])
    share = -UnknownWords(model.vocabulary).log_share("ba") / math.log(2)
    expected = [bits("</s>", "a"), whole + share, bits("<unk>", "b")]
    assert values(found(), "surprisal") == pytest.approx(expected)
    assert values(found(), "known") == [True, False, True]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("a zebra", {"unknown": "class"}, "too low"),
        ("a <unk> b", {"tokenizer": "whitespace"}, "written <unk>"),
        (
            "a b. a",
            {"tokenizer": "whitespace"},
            "^1 token is unknown only because punctuation is attached:",
        ),
    ],
)
def test_what_can_be_misread_is_said(model, text, options, said):
    with pytest.warns(UserWarning, match=said):
        table = surprisal_table(model, text, **options)
    assert any(re.search(said, note) for note in table.notes)


def test_the_tokenizer_of_the_fit_leaves_no_other_to_be_given(model):
    for tokenizer in (None, "words"):
        assert surprisal_table(model, "a. b", tokenizer=tokenizer).notes == ()
    whole = KneserNey(order=2).fit(Corpus.from_text(["Jan came", "etc. b"] * 3, tokenizer="words"))
    assert not any("tokenizer" in note for note in surprisal_table(whole, "in Jan. b").notes)
    spaced = KneserNey(order=2).fit(Corpus.from_sentences([["a", "b", "."]] * 3))
    assert any("tokenizer" in note for note in surprisal_table(spaced, "a b.").notes)


def test_items_of_several_sentences_that_are_read_as_one_are_announced(model, items):
    def notes(*texts, **options):
        rows = [f"{i}\t{word}" for i, text in enumerate(texts) for word in text.split()]
        several = items("\n".join(["item\tword", *rows]), "items.tsv", text="item")
        found = surprisal_table(model, several, **options).notes
        return [note for note in found if "split='sentences'" in note]

    assert notes("a b. B a.", "a b.")[0].startswith("1 of 2 items seem to have several")
    assert notes("a b. B a.", "a b.", split="sentences") == []
    assert notes("a b. b a.", "Mr. B a", "a b.") == []  # no sentence begins there
    assert notes("a b. B a.", *["a b."] * 10) == []
    assert not any("items" in note for note in surprisal_table(model, "a b. B a.").notes)


def test_marks_are_refused_without_advice_that_cannot_be_followed(model, items):
    for texts, place in (("a <s>", "1, line 1"), (items("word\na\n<s>\n"), "items.csv")):
        with pytest.raises(CorpusError, match=f"^{place}: <s> is written") as caught:
            surprisal_table(model, texts)
        assert "skip" not in str(caught.value)


def test_a_text_without_unknown_words_teaches_nothing_of_them(fitted):
    with pytest.warns(UserWarning, match="min_count=2"):
        table = surprisal_table(fitted, "The zebra sat.")
    assert any("min_count=2" in note for note in table.notes)


def test_a_model_without_counts_leaves_frequencies_empty(model):
    model._vocabulary = Vocabulary(WORDS, [0] * len(WORDS))
    with pytest.warns(UserWarning, match="log_frequency is empty"):
        table = surprisal_table(model, "a b")
    assert values(table, "log_frequency") == [None, None]


# -- sentences and context -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("He ran. She sat.", [0, 2]),
        ('He ran." She sat', [0, 2]),
        ("Mr. Bond and J. Smith sat.", [0]),
        ("He said no. and left", [0]),
        ("“Why?” (she asked) “Go! ‘not now’”", [0]),
        ("Why? Because! (So it is.) Yes… No", [0, 1, 2, 5, 6]),
        ("at 3.5 percent", [0]),
    ],
)
def test_sentences_end_at_punctuation(text, starts):
    found = sentence_starts(text.split(), "sentences")
    assert [i for i, begins in enumerate(found) if begins] == starts
    assert sentence_starts(text.split(), "lines") == [i == 0 for i in range(len(text.split()))]


def test_regions_of_several_words_end_a_sentence_as_their_last_word_does():
    regions = ["We saw Dr.", "Smith and J. ", "Doe leave.", " he said.", "He ran."]
    assert sentence_starts(regions, "sentences") == [True, False, False, False, True]


def test_split_decides_where_the_model_sees_the_end_of_a_sentence(model):
    lines, split = (
        surprisal_table(model, "a. B a", split=way, unknown="class")
        for way in ("lines", "sentences")
    )
    assert values(lines, "sentence") == [1, 1, 1]
    assert values(split, "sentence") == [1, 2, 2]
    assert values(lines, "surprisal")[1] == pytest.approx(bits(".", "<unk>"))
    assert values(split, "surprisal")[1] == pytest.approx(bits("</s>", "<unk>"))


class Remembering(Tiny):
    """Knows its last word across </s>, as recurrent models do."""

    def advance(self, state, word):
        return state if word == 0 else State(int(word))


def test_context_reaches_over_sentences_or_ends_with_them():
    model = Remembering()
    text, sentence = (surprisal_table(model, "a\nb", context=x) for x in ("text", "sentence"))
    assert values(text, "surprisal")[1] == pytest.approx(bits("a", "b"))
    assert values(sentence, "surprisal")[1] == pytest.approx(bits("</s>", "b"))


# -- words and tokens ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "bare", "word", "length"),
    [
        (["``", "Do", "n't", ","], ["Do", "n't"], "``Don't,", 5),
        (["well", "-", "known", "."], ["well", "-", "known"], "well-known.", 10),
        (["--"], ["--"], "--", 2),
        (["(", "50", "%", ")"], ["50", "%"], "(50%)", 3),
        (["&"], ["&"], "&", 1),
        (["’", "Tis"], ["Tis"], "’Tis", 3),
    ],
)
def test_punctuation_at_the_ends_is_attached(tokens, bare, word, length):
    assert tokens[bare_tokens(tokens)] == bare
    assert bare_length(word) == length


def test_a_tokenizer_may_change_what_it_cuts(model):
    table = surprisal_table(model, "A B", tokenizer=lambda word: [word.lower()])
    assert values(table, "known") == [True, True]
    assert values(table, "word") == ["A", "B"]


def test_a_word_without_tokens_is_refused(model):
    with pytest.raises(DataError, match="no token of 'b'"):
        surprisal_table(model, "a b", tokenizer=lambda word: [] if word == "b" else [word])


def test_the_tokenizer_is_that_of_the_fit(fitted, tmp_path):
    fitted.save(tmp_path / "m")
    again = tacenda.load(tmp_path / "m")
    assert values(surprisal_table(again, "mat, and"), "known") == [True, True]
    mixture = Mixture({"one": again, "other": again})
    assert values(surprisal_table(mixture, "mat, and"), "known") == [True, True]
    own = KneserNey(order=2).fit(Corpus.from_text(["a b"], tokenizer=str.split))
    with pytest.raises(ConfigurationError, match="such as tokenizer="):
        surprisal_table(own, "a b")


# -- items ---------------------------------------------------------------------------------------------


def test_regions_of_items_are_words_and_keep_their_columns(model, items):
    content = 'item;cond;region;rt\n1;x;a b;300\n1;x;"b.";310\n1;y;a;299\n2;x;b;1\n'
    items = items(content, region="region", text=["item", "cond"])
    assert [item.name for item in items] == ["1 x", "1 y", "2 x"]
    table = surprisal_table(model, items)
    assert table.columns[:5] == ("item", "cond", "region", "rt", "text")
    assert values(table, "region") == values(table, "word")
    assert values(table, "rt") == ["300", "310", "299", "1"]
    assert values(table, "word") == ["a b", "b.", "a", "b"]
    assert values(table, "surprisal")[0] == pytest.approx(bits("</s>", "a") + bits("a", "b"))
    assert (values(table, "start")[1], values(table, "end")[1]) == (4, 6)
    assert values(table, "surprisal_prev1")[2:] == [None, None]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("item,word\n1,a\n1\n", "row 3 .* 1 values"),
        ("item,word\n1,a\n2,b\n1,a\n", "goes back to the text '1'"),
        ("item,word\n1,\n", "empty region"),
        ("item,region\n1,a\n", "no column 'word'"),
        ("word,item,word\n1,a,b\n", "2 columns 'word'"),
        ("item,rt,rt,word\n1,300,301,a\n", "2 columns 'rt'.*different name"),
        (",item,word,\n7,1,a,x\n", "several columns without a name"),
        ('item,word\n1,"a\n', "columns.*--no-quotes"),
        ('item,word\n\n1,"He\n1,said,"\n1,and\n', "lines 3 to 4 of .*--no-quotes"),
        ("", "no column"),
    ],
)
def test_a_file_of_items_that_is_not_right_is_refused(items, content, said):
    with pytest.raises(DataError, match=said):
        items(content, text=["item"])


def test_a_column_that_distinguishes_texts_but_is_not_named_is_announced(items):
    def said(content, **options):
        with warnings.catch_warnings(record=True, action="always") as found:
            items(content, **options)
        return [str(each.message) for each in found]

    two = "item,listening_time,Condition,word,rt\n1,5,x,a,7\n1,6,x,b,8\n1,7,y,a,9\n2,8,x,a,7\n"
    [note] = said(two, text="item")
    assert "the text '1' of " in note
    assert (
        "its column 'Condition' has several values, such as 'x' and 'y': name this column" in note
    )
    assert said(two, text="item", words=True) == [note]
    [note] = said(two)
    assert "items.csv is read as one text, but its column 'item' has several" in note
    # all are named, each row is a text, or another column changes
    for options in (
        {"text": ["item", "Condition"]},
        {"words": True},
        {"text": "item", "sentence": "Condition"},
    ):
        assert said(two, **options) == []


def test_quotes_may_be_part_of_the_regions(items):
    [item] = items('word\tzone\n"a\t1\nb"\t2\n', "items.tsv", quotes=False)
    assert (item.name, item.regions) == ("items.tsv", ['"a', 'b"'])


def test_a_column_says_where_sentences_begin(model, items):
    content = "item,sentence,word\n1,x,a\n1,x,b\n1,y,b\n2,y,a\n2,y,b\n2,x,a\n"
    several = items(content, text="item", sentence="sentence")
    table = surprisal_table(model, several)
    assert values(table, "sentence") == [1, 1, 2, 1, 1, 2]
    assert values(table, "surprisal")[2] == pytest.approx(bits("</s>", "b"))
    with pytest.raises(ConfigurationError, match="leave out split"):
        surprisal_table(model, several, split="sentences")
    with pytest.raises(DataError, match="no column 's'"):
        items(content, sentence="s")
    [item] = items("s,word\n1,a\n2,b\n", sentence="s")
    assert (item.starts, item.others) == ([True, True], {"s": ["1", "2"]})
    assert values(surprisal_table(model, item), "sentence") == [1, 2]  # one item is one text


def test_empty_columns_of_a_spreadsheet_are_left_out(items):
    [item] = items("item,word,,\n1,a,,\n1,b,,\n", text="item")
    assert (item.regions, item.others) == (["a", "b"], {"item": ["1", "1"]})
    [item] = items('"","item","word"\n"1","x","a"\n')  # as R numbers rows
    assert item.others == {"": ["1"], "item": ["x"]}


def test_texts_are_told_apart_by_all_their_columns(items):
    found = items("a\tb\tword\n1 2\t3\tx\n1\t2 3\ty\n", "items.tsv", text=["a", "b"])
    assert [(item.name, item.regions) for item in found] == [
        ("'1 2' '3'", ["x"]),
        ("'1' '2 3'", ["y"]),
    ]


def test_texts_of_several_files_have_names_of_their_own(model, items, write_file, tmp_path):
    several, texts = [], []
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        texts.append(write_file(f"{name}/1.txt", "a b\n"))
        several += items(f"item,word\n1,a\n{name},b\n", f"{name}.csv", text="item")
    assert values(surprisal_table(model, texts), "text") == [
        str(path) for path in texts for _ in range(2)
    ]
    assert values(surprisal_table(model, several), "text") == ["x.csv 1", "x", "y.csv 1", "y"]
    same = surprisal_table(model, [texts[0], texts[0]], previous=0)
    assert values(same, "text")[1:3] == [str(texts[0]), f"{texts[0]} (2)"]
    named = {1: "a", "1": "a", "1 (2)": "a"}
    assert values(surprisal_table(model, named), "text") == ["1", "1 (3)", "1 (2)"]
    assert values(surprisal_table(model, {"z": several[0]}), "text") == ["z"]


def test_columns_of_the_file_that_bear_our_names_stay_under_others(model, items):
    items = items("word,length,file_length,surprisal_prev1\na,1,x,2\n")
    with pytest.warns(UserWarning, match="'length' of the file 'file_file_length'"):
        table = surprisal_table(model, items)
    assert table.columns[:4] == ("file_file_length", "file_length", "file_surprisal_prev1", "text")
    assert [values(table, name) for name in table.columns[:3]] == [["1"], ["x"], ["2"]]
    assert values(table, "word") == ["a"]
    assert "surprisal_prev1" in surprisal_table(model, items, previous=0).columns


def test_a_table_can_be_scored_again_by_another_model(model, fitted, tmp_path):
    surprisal_table(model, "a b\nb a", previous=1).write(tmp_path / "first.csv")
    items = read_items(tmp_path / "first.csv", region="word", text="text", sentence="sentence")
    with pytest.warns(UserWarning, match="'surprisal' of the file 'file_surprisal'"):
        table = surprisal_table(fitted, items)
    first = values(surprisal_table(model, "a b\nb a"), "surprisal")
    assert [float(bits) for bits in table["file_surprisal"]] == pytest.approx(first)
    assert values(table, "sentence") == [1, 1, 2, 2]


@pytest.mark.parametrize("options", [{}, {"text": "story"}])
def test_a_sentence_a_row_becomes_a_row_a_word(model, items, options):
    content = 'story,text,rating\ns,"a b.",7\ns,b a b,2\nz,a,3\n'
    items = items(content, region="text", words=True, **options)
    with pytest.warns(UserWarning, match="'text' of the file 'file_text'"):
        table = surprisal_table(model, items)
    assert values(table, "word") == ["a", "b.", "b", "a", "b", "a"]
    assert values(table, "rating") == ["7", "7", "2", "2", "2", "3"]
    assert values(table, "file_text") == ["a b."] * 2 + ["b a b"] * 3 + ["a"]
    assert values(table, "text") == (["s"] * 5 + ["z"] if options else list("112223"))
    assert values(table, "sentence") == ([1, 1, 2, 2, 2, 1] if options else [1] * 6)
    assert values(table, "surprisal")[2] == pytest.approx(bits("</s>", "b"))
    before = [None, *values(table, "surprisal")[:-1]]
    starts = [0, 5] if options else [0, 2, 5]
    expected = [None if i in starts else each for i, each in enumerate(before)]
    assert values(table, "surprisal_prev1") == expected


@pytest.mark.parametrize(
    "content",
    [
        "sep=;\nitem;word;rt\n1;a, b;3\n1;b;4\n",
        "\ufeffitem;word;rt\n1;a, b;3\n1;b;4\n",
        "sep=\t\nitem\tword\trt\n1\ta, b\t3\n1\tb\t4\n",
        '"sep=;"\r\nitem;word;rt\r\n1;a, b;3\r\n1;b;4\r\n',
        "item;word;rt;;;\n1;a, b;3;;;\n1;b;4;;;\n;;;;;\n;;;;;\n",
        "item;word;rt\n1;a, b;3;;;\n\n  \n1;b;4;;;;\n;;\n",
        "\nitem\tword\trt\n1\ta, b\t3\n1\tb\t4\t\t\n",
        "item;word;rt; \n1;a, b;3; \n1;b;4;  \n",
    ],
)
def test_what_spreadsheets_add_to_a_file_is_left_out(content):
    [item] = read_items(io.StringIO(content, newline="").read().splitlines(), region="word")
    assert item.regions == ["a, b", "b"]
    assert item.others == {"item": ["1", "1"], "rt": ["3", "4"]}


def test_the_delimiter_may_be_named():
    lines = ["item|word;", "1|a;b"]
    [item] = read_items(lines, region="word;", delimiter="|")
    assert item.regions == ["a;b"]
    with pytest.raises(DataError, match=r"row 3 of .* 2 values, separated by ','.*delimiter"):
        read_items(["sep=,", "word", "a,b"], region="word")
    with pytest.raises(DataError, match="text is None: name a column"):
        read_items(["word", "a"], region="word", text=None)
    with pytest.raises(DataError, match="the items are None"):
        read_items(None, region="word")
    with pytest.raises(DataError, match=r"no column \['word'\]"):
        read_items(["word", "a"], region=["word"])


# newer versions of Python refuse a quotation mark and a line break too
@pytest.mark.parametrize("delimiter", ["||", "", 5, '"', "\n"])
def test_a_delimiter_that_cannot_be_one_is_an_error_of_ours(delimiter, monkeypatch):
    if delimiter in ('"', "\n"):

        def refuse(*_, **__):
            raise ValueError("bad delimiter value")

        monkeypatch.setattr(csv, "reader", refuse)
    with pytest.raises(DataError, match=r"cannot be read as columns: .*delimiter"):
        read_items(["word", "a"], region="word", delimiter=delimiter)
    if delimiter == '"':
        with pytest.raises(DataError, match="cannot be read as columns: bad delimiter"):
            read_items(['sep="', "word", "a"], region="word")


@pytest.mark.parametrize("error", [TypeError, ValueError])
def test_an_error_of_an_iterator_of_lines_stays_its_own(error):
    def lines():
        yield from ["word", "a"]
        raise error("of the caller")

    with pytest.raises(error, match="of the caller"):
        read_items(lines(), region="word")


# -- writing -------------------------------------------------------------------------------------------

STRANGE = ['a,"b"', "\u00e9\t;", "=1+1", "<unk>", "'", "日本", "x" * 300]


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_what_is_written_is_read_back(model, tmp_path, ending):
    path = tmp_path / f"table{ending}"
    table = surprisal_table(
        model, {"one, two": " ".join(STRANGE), "3\r4": "a"}, tokenizer="whitespace"
    )
    table.write(path)
    with path.open(encoding="utf8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="," if ending == ".csv" else "\t"))
    assert [*rows[0]] == [*table]
    assert "surprisal" in table
    assert "bits" not in table
    for row, own in itertools.zip_longest(rows, table.rows()):
        for name, value in own.items():
            if value is None:
                assert row[name] == ""
            elif isinstance(value, bool):
                assert row[name] == str(value).upper()
            elif isinstance(value, str):
                assert row[name] == value
            else:
                assert float(row[name]) == pytest.approx(value, rel=1e-9)


def test_a_stream_takes_any_delimiter_and_several_tables_under_one_header(model):
    stream = io.StringIO()
    for text, header in (("a b", True), ("b", False)):
        surprisal_table(model, text, previous=0).write(stream, delimiter="|", header=header)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4
    assert all(line.count("|") == 10 for line in lines)
    for delimiter in ("||", "", "\n", "\r", '"', 5):
        with pytest.raises(ConfigurationError, match="delimiter"):
            surprisal_table(model, "a").write(stream, delimiter=delimiter)


def test_the_ending_of_a_file_is_what_it_holds(model, tmp_path):
    table = surprisal_table(model, "a b")
    table.write(tmp_path / "t.TSV")
    assert (tmp_path / "t.TSV").read_text(encoding="utf8").startswith("text\tsentence")
    for name in ("t.csv.gz", "t.tsv.GZ", "t.xlsx"):
        with pytest.raises(ConfigurationError, match=f"{name} is named like"):
            table.write(tmp_path / name)
        assert not (tmp_path / name).exists()


def test_a_file_that_cannot_be_written_is_named(model, tmp_path):
    with pytest.raises(DataError, match="nowhere"):
        surprisal_table(model, "a").write(tmp_path / "nowhere" / "table.csv")
    with pytest.raises(DataError, match="5 names no file"):
        surprisal_table(model, "a").write(5)
    with pytest.raises(DataError, match="open it as text"):
        surprisal_table(model, "a").write(io.BytesIO())
    with pytest.raises(DataError, match=r"cannot write .*t\.csv: .*'\\ud800'"):
        surprisal_table(model, "a \ud800").write(tmp_path / "t.csv")


def test_without_pandas_there_is_no_frame(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigurationError, match=r"rows\(\) or write"):
        surprisal_table(model, "a").to_pandas()


def test_a_frame_is_given_columns_of_their_own_types(model, monkeypatch):
    """A stand-in for pandas keeps what it is given."""
    pandas = ModuleType("pandas")
    pandas.array = lambda values, dtype: (dtype, list(values))
    pandas.DataFrame = dict
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    frame = surprisal_table(model, "a b").to_pandas()
    assert frame["word"] == ["a", "b"]
    assert frame["known_prev1"] == ("boolean", [None, True])
    assert frame["sentence"].dtype == np.int64
    assert np.isnan(frame["length_prev1"][0])


def test_a_frame_of_pandas_itself(model):
    pandas = pytest.importorskip("pandas")
    frame = surprisal_table(model, "a b").to_pandas()
    assert frame["known_prev1"].isna().tolist() == [True, False]
    assert frame["surprisal_prev1"].dtype == float
    again = pandas.read_csv(io.StringIO(frame.to_csv(index=False)))
    assert again["surprisal"].tolist() == pytest.approx(frame["surprisal"].tolist())


# -- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error"),
    [
        *(({"previous": wrong}, ConfigurationError) for wrong in (-1, 1.5, "2")),
        ({"unknown": "even", "unseen_types": "many"}, ConfigurationError),
        ({"split": "words"}, ConfigurationError),
        ({"context": "page"}, ConfigurationError),
        ({"unknown": "none"}, ConfigurationError),
        ({"tokenizer": "nonsense"}, CorpusError),
    ],
)
def test_a_setting_out_of_its_range_is_refused(model, options, error):
    with pytest.raises(error):
        surprisal_table(model, "a", **options)


def test_what_is_no_text_or_no_model_is_refused(model, tmp_path):
    for wrong in ([3], 3, None, tmp_path / "none.txt", b"a", [b"a"]):
        with pytest.raises(CorpusError, match=r"none\.txt|of type (int|NoneType|bytes)"):
            surprisal_table(model, wrong)
    with pytest.raises(DataError):
        surprisal_table(model, [])
    for wrong in ("model", Tiny):
        with pytest.raises(ConfigurationError, match="not a language model"):
            surprisal_table(wrong, "a")
    with pytest.raises(TypeError, match=r"^surprisal_table\(\) .* 'text_field'"):
        surprisal_table(model, "a", text_field="x")


def test_a_text_without_words_has_no_rows(model):
    table = surprisal_table(model, [" \n", "a"])
    assert values(table, "text") == ["2"]
    assert len(surprisal_table(model, "")) == 0
    assert list(text_words("", str.split, "lines")) == []
