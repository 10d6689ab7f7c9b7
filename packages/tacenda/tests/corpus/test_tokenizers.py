import functools
import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda.corpus import Corpus
from tacenda.errors import CorpusError
from tacenda.tokenizers import fingerprint_tokenizer, get_tokenizer, spacy_words, split_words


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("I can't, he won’t.", "I|ca|n't|,|he|wo|n’t|."),
        ("It's Kim's; they'd've gone", "It|'s|Kim|'s|;|they|'d|'ve|gone"),
        ("You cannot; gonna, wanna, gotta", "You|can|not|;|gon|na|,|wan|na|,|got|ta"),
        ("I CANNOT, WON'T GONNA Wanna", "I|CAN|NOT|,|WO|N'T|GON|NA|Wan|na"),
        ("'quoted' and 'tis", "'|quoted|'|and|'|tis"),
        ("a long-term co-author of Sha'lan", "a|long|-|term|co-author|of|Sha'lan"),
        ("Dr. Who met the U.S. envoy, e.g. J. Doe.", "Dr.|Who|met|the|U.S.|envoy|,|e.g.|J.|Doe|."),
        ("It was 1,000.5 at 10:30 on 11/28/2000.", "It|was|1,000.5|at|10:30|on|11/28/2000|."),
        ("the 1990s, the 2nd, 5%", "the|1990s|,|the|2nd|,|5|%"),
        ("see http://a.org/x?y=1. Or me@b.co.uk!", "see|http://a.org/x?y=1|.|Or|me@b.co.uk|!"),
        ("open notes.doc, at www.x.com/a", "open|notes.doc|,|at|www.x.com/a"),
        ("Well... really?! -- yes :-)", "Well|...|really|?!|--|yes|:-)"),
        ('(AT&T said "no")', '(|AT&T|said|"|no|"|)'),
        ("call 713-853-3989", "call|713-853-3989"),
        ("", ""),
        ("  \t ", ""),
    ],
)
def test_words_splits_like_ud_english(text, tokens):
    assert split_words(text) == [token for token in tokens.split("|") if token]


@given(st.text(st.characters(), max_size=60) | st.text("aAn't’s.,-/@&1 :)\"!?", max_size=60))
def test_words_keeps_every_character_but_whitespace(text):
    assert "".join(split_words(text)) == re.sub(r"\s", "", text)


@pytest.mark.parametrize(
    "piece", ["a.b", "a-", "1-", "n't", "a@", "A&", "1/", "www.", "a.com/", "_"]
)
def test_words_takes_a_hundred_thousand_characters_without_a_space(piece):
    text = piece * (100_000 // len(piece))
    assert "".join(split_words(text)) == text


def test_whitespace_splits_at_whitespace_only():
    assert get_tokenizer("whitespace")(" a.b\tc\u00a0d\x00e \r") == ["a.b", "c", "d\x00e"]


def test_a_corpus_records_a_callable_by_its_name():
    class Named:
        def __init__(self, name):
            self.name = name

        def __call__(self, line):
            return line.split()

    # another name, such as that of a tokenizer of ours, says nothing about a callable
    names = {"spacy:en": "spacy:en", "whitespace": "callable", 3: "callable"}
    for name, recorded in names.items():
        assert Corpus.from_text(["a b"], tokenizer=Named(name)).origin["tokenizer"] == recorded
    assert Corpus.from_text(["a b"], tokenizer=str.split).origin["tokenizer"] == "callable"


def test_a_callable_passes_through_and_names_have_fingerprints():
    assert get_tokenizer(list) is list
    assert fingerprint_tokenizer(list) is None
    assert fingerprint_tokenizer("whitespace") != fingerprint_tokenizer("words")


@pytest.mark.parametrize("name", ["_MAY_NEED_SEPARATION", "_SEPARATE", "_TOKEN"])
def test_the_fingerprint_of_words_depends_on_each_of_its_expressions(name, monkeypatch):
    before = fingerprint_tokenizer("words")
    monkeypatch.setattr(f"tacenda.tokenizers.{name}", re.compile("x"))
    assert fingerprint_tokenizer("words") != before


@pytest.mark.parametrize("name", ["word", "spacy", "spacy:", "", "spaCy:en"])
def test_an_unknown_tokenizer_is_named_with_the_choices(name):
    with pytest.raises(CorpusError, match=r"no tokenizer .*whitespace"):
        get_tokenizer(name)


@functools.cache
def _blank(language):
    return pytest.importorskip("spacy").blank(language)


@pytest.mark.parametrize("language", ["en", "de", "fr", "fi"])
@given(
    st.lists(
        st.sampled_from([*"aIdu.,:;-'’()\"/@%5é \t\u3000\x1f", "z.B.", "don't", " 10km", "l'"])
    )
)
def test_pieces_that_are_remembered_are_split_as_in_the_whole_line(language, parts):
    text = "".join(parts)
    found = [token.text for token in _blank(language)(text) if not token.is_space]
    assert get_tokenizer(f"spacy:{language}")(text) == found


class TestSpacy:
    @pytest.fixture
    def spacy(self):
        return pytest.importorskip("spacy", reason="the spacy extra is not installed")

    def test_tokens_are_those_of_the_blank_pipeline(self, spacy):
        text = "Don't  panic: it's 5pm\t(U.K. time).\n "
        expected = [token.text for token in spacy.blank("en")(text) if not token.is_space]
        assert get_tokenizer("spacy:en")(text) == expected
        assert spacy.__version__ in (fingerprint_tokenizer("spacy:en") or "")

    def test_the_version_of_a_segmenter_is_part_of_the_fingerprint(self, spacy, monkeypatch):
        monkeypatch.setattr("tacenda.tokenizers.get_tokenizer", lambda name: list)
        prints = []
        for version in ("0.42.1", "0.43"):
            monkeypatch.setattr("tacenda.plugins.version_of", lambda name, v=version: f"{name}-{v}")
            prints.append(fingerprint_tokenizer("spacy:zh"))
        assert prints[0] != prints[1]
        assert "jieba-0.42.1" in prints[0]

    @pytest.mark.parametrize("name", ["spacy:en (custom)", "callable"])
    def test_a_users_own_tokenizer_has_to_be_passed(self, name):
        with pytest.raises(CorpusError, match=r"not saved with a model; pass it as a function"):
            get_tokenizer(name)

    def test_a_special_case_with_a_space_is_kept_whole(self, spacy):
        tokenizer = spacy.blank("en").tokenizer
        tokenizer.add_special_case("New York", [{"ORTH": "New York"}])
        assert spacy_words(tokenizer)("in New  York, New York") == [
            *("in", "New", "York", ",", "New York")
        ]

    def test_chinese_is_split_into_words(self, spacy):
        pytest.importorskip("jieba")
        assert get_tokenizer("spacy:zh")("我喜欢北京大学") == ["我", "喜欢", "北京大学"]


@pytest.mark.data
@pytest.mark.skipif("TACENDA_DATA" not in os.environ, reason="TACENDA_DATA is not set")
def test_words_agrees_with_ud_english_ewt():
    path = Path(os.environ["TACENDA_DATA"]) / "ud/UD_English-EWT/en_ewt-ud-dev.conllu"
    right = gold = found = 0
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        lines = block.split("\n")
        text = next(line[9:] for line in lines if line.startswith("# text = "))
        rows = [line.split("\t") for line in lines if line[0] != "#"]
        words = _spans([row[1] for row in rows if row[0].isdigit()])
        tokens = _spans(split_words(text))
        right, gold, found = right + len(words & tokens), gold + len(words), found + len(tokens)
    assert 2 * right / (gold + found) > 0.985


def _spans(tokens):
    ends, spans = 0, set()
    for token in tokens:
        size = len(token.replace(" ", ""))
        spans.add((ends, ends + size))
        ends += size
    return spans


RUNNING = "They saw a saw, near the bank. Did they buy it? No: it was old; and dear!"
TOKENIZED = "mr. vinken is chairman of elsevier n.v. , the dutch publishing group . nobody asked N years ago why"


def test_running_text_that_is_split_at_whitespace_brings_one_warning(write_file, tmp_path):
    path = write_file("text.txt", "\n".join([RUNNING] * 50))
    texts = path, [RUNNING] * 50, "\n".join([RUNNING] * 50)
    for number, text in enumerate(texts):
        for cache in (None, tmp_path / str(number)):
            with pytest.warns(
                UserWarning, match=r"29% of the tokens .*'saw,'.*tokenizer=\"words\""
            ) as found:
                Corpus.from_text(text, cache=cache)
            assert [each.filename for each in found] == [__file__]


@pytest.mark.filterwarnings("error")
def test_text_that_was_tokenized_brings_no_warning(tmp_path):
    Corpus.from_text([TOKENIZED] * 100)
    Corpus.from_text([RUNNING] * 50, tokenizer="words")
    Corpus.from_text([RUNNING] * 50, tokenizer=str.split)
    Corpus.from_sentences([RUNNING.split()] * 50)
    known = Corpus.from_text([TOKENIZED]).vocabulary
    Corpus.from_text([RUNNING] * 50, vocabulary=known)  # the text of the vocabulary was warned of
    Corpus.from_text([RUNNING])  # too short to tell


@pytest.mark.data
@pytest.mark.skipif("TACENDA_DATA" not in os.environ, reason="TACENDA_DATA is not set")
@pytest.mark.filterwarnings("error")
def test_the_penn_treebank_brings_no_warning():
    Corpus.from_text(Path(os.environ["TACENDA_DATA"]) / "lm/ptb/ptb.valid.txt")


@pytest.mark.parametrize(
    ("language", "package"),
    [("zh", "jieba"), ("ja", "sudachipy"), ("ko", "natto"), ("th", "pythainlp"), ("vi", "pyvi")],
)
def test_a_language_whose_packages_are_missing_names_them(language, package):
    pytest.importorskip("spacy")
    if find_spec(package) is not None:
        pytest.skip(f"{package} is installed")
    with pytest.raises(
        CorpusError, match=rf'(?i)"spacy:{language}" cannot be made: .*{package}'
    ) as caught:
        Corpus.from_text(["a text"], tokenizer=f"spacy:{language}")
    assert "\n" not in str(caught.value)


def test_a_language_that_spacy_does_not_have_is_named():
    pytest.importorskip("spacy")
    with pytest.raises(CorpusError, match='spaCy has no language "xq"'):
        Corpus.from_text(["a text"], tokenizer="spacy:xq")
