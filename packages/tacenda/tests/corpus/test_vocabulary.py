import copy
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda import Corpus
from tacenda.errors import ArtifactError, CorpusError
from tacenda.vocabulary import Normalization, Vocabulary

any_word = st.text(st.characters(), max_size=12)  # surrogates, spaces and line ends included
typed_word = st.text("abXYNUM019 .\n</s>unkİΣ", max_size=8)
normalizations = st.builds(Normalization, st.booleans(), st.booleans())
oovs = st.sampled_from(["single", "classes", "learned"])


def vocabulary(words="the the the cat cat sat", n_sentences=2, **settings):
    return Vocabulary.from_counts(Counter(words.split()), n_sentences, **settings)


def test_ids_run_from_frequent_to_rare_and_ties_by_code_point():
    v = vocabulary("b b c c a Z the the the", n_sentences=2)
    assert v.words == ("the", "</s>", "b", "c", "Z", "a", "<unk>")
    assert v.counts.tolist() == [3, 2, 2, 2, 1, 1, 0]
    assert [v.id_of(word) for word in v.words] == list(range(len(v)))


def test_specials_come_on_top_of_the_cut_off():
    v = vocabulary("a a a b b c", n_sentences=1, max_vocabulary=2)
    assert v.words == ("a", "b", "</s>", "<unk>")
    assert v.counts.tolist() == [3, 2, 1, 1]
    assert v.id_of("c") == v.unknown_id == 3


def test_rare_words_are_counted_after_normalization():
    v = vocabulary("In in 1990 2001 x", min_count=2, normalization=Normalization(True, True))
    assert v.words == ("</s>", "NUM", "in", "<unk>")
    assert v.id_of("IN") == v.id_of("in") != v.unknown_id
    assert v.id_of("7") == v.id_of("NUM")


@pytest.mark.parametrize(
    ("raw", "normalized"),
    [("1990s", "NUMs"), ("3.50", "NUM.NUM"), ("B2B", "BNUMB"), ("٣", "NUM"), ("no", "no")],
)
def test_every_run_of_digits_becomes_num(raw, normalized):
    assert Normalization(digits=True)(raw) == normalized


@pytest.mark.parametrize("oov", ["single", "learned"])
def test_num_is_three_letters_where_most_occurrences_are_written_so(oov, tmp_path):
    text = ["NUMBER NUMB NUMB 0B UTF8 NUMs 1990s 1991s NUMBING"]
    built = Corpus.from_text(text, digits=True, oov=oov, cache=tmp_path / "c").vocabulary
    opened = Corpus.open(tmp_path / "c").vocabulary
    for v in (built, opened, pickle.loads(pickle.dumps(built))):  # noqa: S301
        assert v.spelled == {"NUMBER", "NUMB", "NUMBING"}
        assert {"UTFNUM", "NUMs"} < set(v.words)


def test_lower_casing_spares_num_but_not_words_that_contain_it():
    normalize = Normalization(digits=True, lowercase=True)
    assert normalize("B52s") == "bNUMs"
    assert normalize("NUM") == "NUM"
    assert normalize("NUMBER") == "number"


@given(typed_word, normalizations)
def test_normalizing_twice_changes_nothing_more(word, normalization):
    once = normalization(word)
    assert normalization(once) == once


def test_a_literal_unk_means_the_unknown_word():
    v = vocabulary("a a <unk> <unk> <unk> b", max_vocabulary=1)
    assert v.id_of("<unk>") == v.unknown_id
    assert v.counts[v.unknown_id] == 4
    assert v.words.count("<unk>") == 1


def test_rare_words_join_their_class_and_rare_classes_a_coarser_one():
    rare = "deglazing braising " * 3 + "glazing " + "unwisely " * 3 + "zorg blurb " * 2
    text = "the " * 90 + rare + "€ "
    v = vocabulary(text, min_count=50, oov="classes", min_class_count=7)
    named = dict(zip(v.words, v.counts.tolist(), strict=True))
    # 3 -ly words are too few for their class: they count as plain lower-case words
    assert named == {"the": 90, "<oov:x:ing>": 7, "<oov:x>": 7, "</s>": 2, "<unk>": 1}
    assert v.id_of("sauteing") == v.id_of("<oov:x:ing>") == v.words.index("<oov:x:ing>")
    assert v.id_of("rarely") == v.words.index("<oov:x>")
    assert v.id_of("£") == v.unknown_id
    assert "sauteing" not in v
    assert "the" in v


@given(
    st.lists(typed_word, min_size=1, max_size=60),
    st.lists(typed_word, max_size=10),
    normalizations,
    oovs,
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 4),
)
def test_counts_are_those_of_the_encoded_text(
    words, others, normalization, oov, n_kept, min_count, min_class_count
):
    v = Vocabulary.from_counts(
        Counter(words), 7, max_vocabulary=n_kept, min_count=min_count, normalization=normalization,
        oov=oov, min_class_count=min_class_count,
    )  # fmt: skip
    counts = np.bincount(v.encode(words), minlength=len(v))
    counts[v.boundary_id] += 7
    assert counts.tolist() == v.counts.tolist()
    assert v.counts.tolist() == sorted(v.counts.tolist(), reverse=True)
    for word in [*words, *others]:
        assert v.id_of(word) == v.id_of(normalization(word)) or word.startswith("<")
    ids = v.encode([*words, *others])
    assert v.encode(v.decode(ids)).tolist() == ids.tolist()


@given(st.lists(any_word, min_size=1, max_size=30), normalizations, oovs)
def test_arrays_bring_any_words_back(words, normalization, oov):
    v = Vocabulary.from_counts(Counter(words), 1, normalization=normalization, oov=oov)
    again = Vocabulary.from_arrays(v.config_dict(), v.arrays())
    assert again == v
    assert (again.words, again.normalization, again.oov) == (v.words, v.normalization, v.oov)
    assert again.spelled == v.spelled
    assert again.encode(words).tolist() == v.encode(words).tolist()


def test_a_pickled_or_copied_vocabulary_looks_up_the_same():
    v = vocabulary("A1 A1 b c", max_vocabulary=2, normalization=Normalization(True, True))
    for again in (pickle.loads(pickle.dumps(v)), copy.deepcopy(v)):  # noqa: S301
        assert again == v
        assert again.encode(["a7", "zzz", "B"]).tolist() == v.encode(["a7", "zzz", "B"]).tolist()


def test_encode_gives_int32_and_takes_any_iterable():
    v = vocabulary()
    assert v.encode([]).dtype == np.int32
    assert v.encode(iter(["the", "dog"])).tolist() == [v.id_of("the"), v.unknown_id]
    assert v.encode(("the", "dog"), remember=False).tolist() == [v.id_of("the"), v.unknown_id]


@pytest.mark.parametrize("remember", [True, False])
@pytest.mark.parametrize("digits", [True, False])
@pytest.mark.parametrize("token", [1, 2.5, None, b"a", ["a"]])
def test_tokens_that_are_not_strings_are_refused(token, digits, remember):
    v = vocabulary(normalization=Normalization(digits=digits))
    with pytest.raises(CorpusError, match="tokens must be strings"):
        v.encode(["the", token], remember=remember)
    with pytest.raises(CorpusError, match="tokens must be strings"):
        v.id_of(token)
    with pytest.raises(CorpusError, match="tokens must be strings"):
        Vocabulary.from_words(["the", token], v.normalization)
    with pytest.raises(CorpusError, match="tokens must be strings"):
        Vocabulary(["</s>", "<unk>", token], [1, 1, 1])
    if not isinstance(token, list):
        with pytest.raises(CorpusError, match="tokens must be strings"):
            Vocabulary.from_counts({"the": 2, token: 1}, 3)


def test_membership_does_not_change_by_looking_up():
    v = vocabulary("a a b", max_vocabulary=1, normalization=Normalization(lowercase=True))
    assert "b" not in v
    v.encode(["b", "A"])
    assert "b" not in v
    assert "A" in v
    assert 3 not in v


def test_remembered_spellings_are_bounded(monkeypatch):
    monkeypatch.setattr("tacenda.vocabulary._CACHED_SPELLINGS", 10)
    v = vocabulary()
    v.encode([f"w{i}" for i in range(1000)])
    assert len(v._ids) == len(v) + 10
    assert v.id_of("w999") == v.unknown_id


def test_another_vocabulary_is_refused_with_the_difference():
    v = vocabulary()
    v.require_same(vocabulary(), "the corpus")
    with pytest.raises(CorpusError, match=r"of train\.txt .*id 2 is 'dog' there, 'cat' here"):
        v.require_same(vocabulary("the the the dog dog sat"), "train.txt")
    with pytest.raises(CorpusError, match="lowercase=True"):
        v.require_same(vocabulary(normalization=Normalization(lowercase=True)), "the corpus")
    longer = Vocabulary((*v.words, "x"), [*v.counts, 0])
    with pytest.raises(CorpusError, match="5 types there, 6 here"):
        longer.require_same(v, "the corpus")


@pytest.mark.parametrize("bad", [-1, 5, 2**40])
def test_ids_of_another_vocabulary_are_refused(bad):
    with pytest.raises(CorpusError, match=f"no id {bad} in a vocabulary of 5 types"):
        vocabulary().decode([0, bad])


@pytest.mark.parametrize("bad", [None, 3, "ab", [1.5], [[1]], np.ones((1, 1), int)], ids=str)
def test_what_is_no_list_of_ids_is_refused(bad):
    with pytest.raises(CorpusError, match="ids must be a list of whole numbers, not"):
        vocabulary().decode(bad)


def test_bad_vocabularies_are_refused():
    for words, counts, message in (
        (["</s>", "<unk>", "a", "a"], [1, 1, 1, 1], "same word twice"),
        (["</s>", "a"], [1, 1], "no <unk>"),
        (["</s>", "<unk>"], [1], "one count per word"),
        (["</s>", "<unk>"], [1, -1], "negative"),
        (["</s>", "<unk>"], [1.7, 2], "not whole numbers"),
        (["</s>", "<unk>"], ["1", "2"], "not whole numbers"),
        (["</s>", "<unk>"], [2**70, 2], "not whole numbers"),
    ):
        with pytest.raises(CorpusError, match=message):
            Vocabulary(words, counts)
    for name, value in (
        ("max_vocabulary", 0),
        ("max_vocabulary", 1.0),
        ("min_count", "2"),
        ("min_class_count", None),
        ("oov", "none"),
    ):
        with pytest.raises(CorpusError, match=f"{name} is {value!r}"):
            vocabulary(**{name: value})
    for count, n_sentences in ((1.5, 3), (1, 0.5)):
        with pytest.raises(CorpusError, match="a count is a float; counts must be whole numbers"):
            Vocabulary.from_counts({"a": 2, "b": count}, n_sentences)
    for read in (Vocabulary.from_words, vocabulary().encode):
        for wrong, message in (("abc", "is one string"), (None, r"is a NoneType \(None\)")):
            with pytest.raises(CorpusError, match=message):
                read(wrong)
    for make in (
        lambda rules: Vocabulary(["</s>", "<unk>"], [1, 1], rules),
        lambda rules: Vocabulary.from_words(["a"], rules),
        lambda rules: Vocabulary.from_counts({"a": 1}, 1, normalization=rules),
    ):
        with pytest.raises(CorpusError, match="normalization is 'lower'; give a Normalization"):
            make("lower")


def test_a_corpus_that_was_stored_can_be_opened_whatever_kind_of_bool_was_given(tmp_path):
    Corpus.from_text("A 1", digits=np.True_, cache=tmp_path / "c")
    assert Corpus.open(tmp_path / "c").vocabulary.normalization == Normalization(digits=True)
    for wrong in (1, "no", None):
        with pytest.raises(CorpusError, match=f"lowercase is {wrong!r}; it must be True or False"):
            Corpus.from_text("A 1", lowercase=wrong)


def damaged(name, value):
    arrays = vocabulary().arrays()
    arrays[name] = value
    return arrays


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "'vocabulary.text' is missing"),
        (damaged("vocabulary.counts", np.zeros(5)), "counts' is float64"),
        (damaged("vocabulary.counts", np.zeros((5, 1), np.int64)), "shape"),
        (damaged("vocabulary.counts", np.zeros(4, int)), r"shape \(4,\) and must have \(types=5\)"),
        (damaged("vocabulary.offsets", np.array([0, 9, 3, 10, 12, 18])), "one falls"),
        (damaged("vocabulary.offsets", np.array([0, 2**63 - 1, -2, 10, 12, 18])), "one falls"),
        (damaged("vocabulary.offsets", np.zeros(0, np.int64)), r"has shape \(0,\)"),
        (damaged("vocabulary.text", np.full(18, 0xFF, np.uint8)), "not UTF-8"),
        (damaged("vocabulary.counts", np.full(5, -1)), "negative"),
    ],
)
def test_damaged_arrays_are_refused(arrays, message):
    with pytest.raises(ArtifactError, match=message):
        Vocabulary.from_arrays(vocabulary().config_dict(), arrays)


def renamed(word, other):
    return np.frombuffer(bytes(vocabulary().packed()[0]).replace(word, other), np.uint8)


@given(st.lists(any_word, min_size=1, max_size=30), normalizations, oovs)
def test_words_that_stay_packed_are_those_unpacked_at_once(words, normalization, oov):
    v = Vocabulary.from_counts(Counter(words), 1, normalization=normalization, oov=oov)
    packed = Vocabulary.from_arrays(v.config_dict(), v.arrays(), at_once=False)
    assert len(packed) == len(v)
    assert packed.fingerprint == v.fingerprint
    for name, array in v.arrays().items():
        assert array.tolist() == packed.arrays()[name].tolist()
    assert "words" not in vars(packed)  # nothing so far asked for a word
    assert packed.encode(words).tolist() == v.encode(words).tolist()
    assert packed.words == v.words
    assert pickle.loads(pickle.dumps(packed)) == v  # noqa: S301


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (damaged("vocabulary.text", np.full(18, 0xFF, np.uint8)), "not UTF-8"),
        (damaged("vocabulary.text", renamed(b"</s>", b"<xs>")), "damaged: .*no </s>"),
        (damaged("vocabulary.offsets", np.array([0, 0, 0, 10, 12, 18])), "damaged: .*twice"),
    ],
)
def test_damaged_words_that_stay_packed_are_refused_when_one_is_asked_for(arrays, message):
    found = Vocabulary.from_arrays(vocabulary().config_dict(), arrays, at_once=False)
    for _ in range(2):
        with pytest.raises(ArtifactError, match=message):
            found.id_of("a")


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"digits": 1, "lowercase": False, "oov": "single"},
        {"digits": True, "lowercase": False},
        {"digits": True, "lowercase": False, "oov": "x"},
        {"digits": True, "lowercase": False, "oov": "single", "spelled": 3},
        {"digits": True, "lowercase": False, "oov": "single", "spelled": [[]]},
    ],
)
def test_damaged_settings_are_refused(config):
    with pytest.raises(ArtifactError, match="damaged"):
        Vocabulary.from_arrays(config, vocabulary().arrays())
