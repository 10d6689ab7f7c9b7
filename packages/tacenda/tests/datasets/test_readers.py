import gzip
import lzma
import shutil
import zipfile
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda.datasets import columns, conllu, treebank, word_similarity
from tacenda.errors import DataError


@pytest.fixture
def written(write_file):
    def write(text, name="file.txt"):
        data = text if isinstance(text, bytes) else text.encode()
        pack = {"xz": lzma.compress, "gz": gzip.compress}.get(name.rpartition(".")[2], bytes)
        return write_file(name, pack(data))

    return write


def assert_refused(read, path, place, cause):
    """Reading says in which file, where and why it cannot go on."""
    with pytest.raises(DataError) as caught:
        list(read(path))
    assert str(caught.value).startswith(f"{path}, {place}")
    assert cause in str(caught.value)


def conllu_row(identifier, form, head="0", misc="_", upos="X", xpos="x"):
    return f"{identifier}\t{form}\t_\t{upos}\t{xpos}\t_\t{head}\tdep\t_\t{misc}\n"


SENTENCE = (
    "# sent_id = s1\n"
    "# text = I don't go.\n"
    + conllu_row(1, "I", 4, upos="PRON", xpos="PRP")
    + conllu_row("2-3", "don't", "_", "_", "_", "_")
    + conllu_row(2, "do", 4)
    + conllu_row(3, "n't", 4)
    + conllu_row(4, "go", 0, "SpaceAfter=No|Extra=1", "VERB", "VB")
    + conllu_row("4.1", "went", "_")
    + conllu_row(5, ".", 4, "SpaceAfter=No")
    + "\n"
)


@pytest.mark.parametrize("name", ["a.conllu", "a.conllu.xz", "a.conllu.gz"])
def test_conllu_keeps_words_and_leaves_out_multiword_rows_and_empty_nodes(written, name):
    (sentence,) = conllu.read(written(SENTENCE, name))
    assert sentence.words == ("I", "do", "n't", "go", ".")
    assert sentence.upos == ("PRON", "X", "X", "VERB", "X")
    assert sentence.xpos[0] == "PRP"
    assert sentence.heads == (4, 4, 4, 0, 4)
    assert sentence.space_after == (True, False, True, False, False)
    assert (sentence.text, sentence.sent_id) == ("I don't go.", "s1")


def test_conllu_text_is_put_together_from_the_surface_where_it_is_not_given(written):
    (sentence,) = conllu.read(written(SENTENCE.split("\n", 2)[2]))
    assert sentence.text == "I don't go."


def test_conllu_sentences_follow_one_another_with_or_without_a_last_blank_line(written):
    path = written(SENTENCE + "\n\n" + SENTENCE.rstrip("\n"))
    assert [s.words[0] for s in conllu.read(path)] == ["I", "I"]


def test_conllu_reads_windows_line_ends_and_a_byte_order_mark(written):
    (sentence,) = conllu.read(written(("\ufeff" + SENTENCE).replace("\n", "\r\n")))
    assert (sentence.text, sentence.sent_id) == ("I don't go.", "s1")


def test_conllu_words_may_hold_spaces_and_exotic_separators(written):
    text = conllu_row(1, "20 000") + conllu_row(2, "a\u2028b\u00a0c\x85d") + "\n"
    (sentence,) = conllu.read(written(text))
    assert sentence.words == ("20 000", "a\u2028b\u00a0c\x85d")


def test_conllu_is_read_as_it_is_asked_for(written):
    sentences = conllu.read(written(SENTENCE + "nonsense\n"))
    assert next(sentences).sent_id == "s1"
    with pytest.raises(DataError, match="line 11: 1 tab-separated columns, expected 10"):
        next(sentences)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("1\tword\n", "line 1: 2 tab-separated columns"),
        (conllu_row(2, "a"), "line 1: the id is '2' where 1 is expected"),
        (conllu_row(1, "a") + conllu_row(1, "b"), "line 2: the id is '1'"),
        (conllu_row("one", "a"), "the id is 'one'"),
        (conllu_row(1, ""), "the word is empty"),
        (conllu_row(1, "a", "x"), "the head 'x' is not a number"),
        (conllu_row(1, "a", "-3"), "the head '-3' is not a number"),
        (conllu_row(1, "a", "²"), "the head '²' is not a number"),
        (conllu_row(1, "a", "2") + "\n", "a head is word 2 in a sentence of 1 words"),
        (conllu_row("1-2", "ab") + conllu_row(1, "a"), "ends inside a multiword token"),
        (conllu_row("2-3", "ab"), "multiword token 2-3 is out of place"),
        (conllu_row("1-3", "ab") + conllu_row(1, "a") + conllu_row("2-3", "b"), "out of place"),
        ("# text = nothing\n\n", "line 2: a sentence without words"),
        ("# text = nothing\n", "line 1: a sentence without words"),
        (conllu_row("1.1", "a") + "\n", "a sentence without words"),
    ],
)
def test_conllu_that_is_not_conllu_is_named_by_file_and_line(written, text, cause):
    assert_refused(conllu.read, written(text), "line ", cause)


@pytest.mark.parametrize(
    "read", [conllu.read, columns.read_ner, treebank.read, word_similarity.read]
)
def test_unreadable_files_are_named(tmp_path, written, read):
    with pytest.raises(DataError, match="there is no file"):
        list(read(tmp_path / "none.xz"))
    if read is not treebank.read:
        with pytest.raises(DataError, match="is a directory, not a text file"):
            list(read(tmp_path))
    for name, cut in (("a.xz", 40), ("a.gz", 20)):
        whole = written(SENTENCE * 50, name)
        whole.write_bytes(whole.read_bytes()[:-cut])
        with pytest.raises(DataError, match=r"a\.[xg]z is a damaged (xz|gzip) file|a\.[xg]z, line"):
            list(read(whole))
    with pytest.raises(
        DataError, match=r"is not utf-8 at line 1, byte offset 3 .*; convert the file to utf-8$"
    ):
        list(read(written(b"abc\xffdef\n", "latin")))


CONLL2003_TEXT = """\
-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
-DOCSTART-
Paris NNP I-NP I-LOC
France NNP I-NP B-LOC
"""


def test_columns_are_named_and_document_marks_left_out(written):
    first, second = columns.read(written(CONLL2003_TEXT), iter(columns.CONLL2003))
    words, tags, chunks, entities = (
        ("EU", "rejects"),
        ("NNP", "VBZ"),
        ("I-NP", "I-VP"),
        ("I-ORG", "O"),
    )
    assert first == {"word": words, "pos": tags, "chunk": chunks, "entity": entities}
    assert second["word"] == ("Paris", "France")


def test_entities_come_out_in_iob2(written):
    sentences = list(columns.read_ner(written(CONLL2003_TEXT), "iob1"))
    assert sentences == [
        (("EU", "rejects"), ("B-ORG", "O")),
        (("Paris", "France"), ("B-LOC", "B-LOC")),
    ]
    stray = list(columns.read_ner(written("a O\nb B-MISC\n"), "iob1"))  # in CoNLL-2003 twice
    assert stray == [(("a", "b"), ("O", "B-MISC"))]


def test_a_row_of_one_tab_ends_a_sentence_as_in_wnut(written):
    path = written("@ a\tO\n\u00a0x\tB-person\n\t\nb\tO\n")
    assert list(columns.read_ner(path, separator="\t")) == [
        (("@ a", "\u00a0x"), ("O", "B-person")),
        (("b",), ("O",)),
    ]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("a O\nb\n", "line 2: 1 columns where 2 are expected"),
        ("a\n", "line 1: one column, expected a word and its tag"),
        ("a X-PER\n", "sentence of line 1: 'X-PER' is not an entity tag"),
        ("a B-\n", "'B-' is not an entity tag"),
        ("\na O\nb I-PER\n", "sentence of line 2: 'I-PER' follows 'O', which IOB2 forbids"),
        ("a B-LOC\nb I-PER\n", "'I-PER' follows 'B-LOC'"),
    ],
)
def test_malformed_entity_files_are_named_by_file_and_line(written, text, cause):
    assert_refused(columns.read_ner, written(text), "", cause)


def test_wrong_arguments_are_refused(written):
    path = written("a O\n")
    with pytest.raises(DataError, match="scheme 'bilou' is unknown"):
        list(columns.read_ner(path, "bilou"))
    for names in (("word", "word"), (), "wt"):
        with pytest.raises(DataError, match="not a list of different names"):
            list(columns.read(path, names))
    for read in (partial(columns.read, columns=("word", "tag")), columns.read_ner):
        for separator in ("", 5):
            with pytest.raises(DataError, match=f"separator is {separator!r}: name the string"):
                list(read(path, separator=separator))
    with pytest.raises(DataError, match="1 is not an entity tag"):
        columns.iob1_to_iob2([1, 0])
    with pytest.raises(DataError, match="an empty cell"):
        list(columns.read(written("a\t\t\n"), ("word", "pos", "tag"), "\t"))


ENTITIES = st.lists(st.tuples(st.sampled_from(["O", "A", "B"]), st.integers(1, 3)), max_size=8)


@given(ENTITIES)
def test_iob1_and_iob2_of_the_same_entities_agree(entities):
    iob1, iob2, previous = [], [], "O"
    for kind, length in entities:
        if kind == "O":
            iob1 += ["O"] * length
            iob2 += ["O"] * length
        else:
            iob1 += [("B-" if previous == kind else "I-") + kind] + ["I-" + kind] * (length - 1)
            iob2 += ["B-" + kind] + ["I-" + kind] * (length - 1)
        previous = kind
    assert columns.iob1_to_iob2(iter(iob1)) == tuple(iob2)
    assert columns.iob1_to_iob2(iob2) == tuple(iob2)


TREES = r"""
( (S
    (NP-SBJ-1 (NNP Mr.) (NNP Vinken) )
    (VP (VBZ is)
      (S (NP-SBJ (-NONE- *-1) )
        (NP (CD 1\/2) (-LRB- -LRB-) (NN a\*b) (-RRB- -RRB-) )))
    (. .) ))
( (FRAG (NP (-NONE- *) )))
( (S (NP (NN end) )))
"""


def test_trees_give_words_and_tags_without_empty_elements(written):
    first, second = treebank.read(written(TREES, "wsj.mrg"))
    assert first.words == ("Mr.", "Vinken", "is", "1/2", "(", "a*b", ")", ".")
    assert first.tags == ("NNP", "NNP", "VBZ", "CD", "-LRB-", "NN", "-RRB-", ".")
    assert second == (("end",), ("NN",))


def test_trees_of_a_folder_and_of_a_zip_file_come_in_order_from_combined_only(tmp_path):
    names = {"tb/combined/wsj_2.mrg": "b", "tb/combined/wsj_1.mrg": "a", "tb/other/x.mrg": "x"}
    of_mac = ["tb/combined/._wsj_1.mrg", "__MACOSX/tb/combined/._wsj_1.mrg"]
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        for name in (*names, *of_mac):
            text = f"( (NN {names[name]}) )".encode() if name in names else b"\0\5\x16\7\xff"
            archive.writestr(name, text)
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(text)
    shutil.copy(tmp_path / "t.zip", tmp_path / "T.ZIP")
    shutil.copytree(tmp_path / "tb", tmp_path / "folder.zip")
    for source in map(tmp_path.joinpath, ("t.zip", "T.ZIP", "tb", "folder.zip")):
        assert [s.words for s in treebank.read(source)] == [("a",), ("b",)]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("( (S (NN a) )\n", "ends inside a tree"),
        ("( (NN a) ))\n", "a ) too many"),
        ("word\n", "'word' is outside any tree"),
        ("( (NN a b) )\n", "not (TAG word)"),
        ("( (S (NN a) b) )\n", "not (TAG word)"),
        ("( (S (NN bar) foo baz) )\n", "'foo' is in a bracket that is not (TAG word)"),
        ("( (NN) )\n", "not (TAG word)"),
        ("( (S a (NN b)))\n", "'a' is not the word of a (TAG word) bracket"),
    ],
)
def test_malformed_trees_are_named_by_file_and_line(written, text, cause):
    assert_refused(treebank.read, written("\n" + text, "a.mrg"), "line 2: ", cause)


def test_a_treebank_without_trees_is_named(tmp_path, written):
    with pytest.raises(DataError, match=r"holds no \.mrg files"):
        list(treebank.read(tmp_path))
    with pytest.raises(DataError, match="not a valid zip file"):
        list(treebank.read(written("noise", "t.zip")))
    with pytest.raises(DataError, match=r"none\.zip cannot be read \(No such file"):
        list(treebank.read(tmp_path / "none.zip"))
    with zipfile.ZipFile(tmp_path / "latin.zip", "w") as archive:
        archive.writestr("a.mrg", b"\xff")
    with pytest.raises(DataError, match=r"a\.mrg is not utf-8 .*; convert the file to utf-8$"):
        list(treebank.read(tmp_path / "latin.zip"))


@pytest.mark.parametrize(
    ("place", "damage", "cause"),
    [
        # the flags of the file, in its own header and in the directory: bit 0 means that it is encrypted
        ((6, 8), b"\1\0", "cannot be unpacked .*encrypted.*: unpack it yourself"),
        # the properties of LZMA, of which the first is at most 224
        ((30 + len("a.mrg") + 4, None), b"\xff", "not a valid zip file"),
    ],
)
def test_a_zip_file_that_cannot_be_unpacked_is_named(tmp_path, place, damage, cause):
    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.mrg", "( (NN a) )" * 99)
    data = bytearray(path.read_bytes())
    for start, at in zip((0, data.index(b"PK\1\2")), place, strict=True):
        if at is not None:
            data[start + at : start + at + len(damage)] = damage
    path.write_bytes(data)
    with pytest.raises(DataError, match=rf"t\.zip.*{cause}"):
        list(treebank.read(path))


def test_word_pairs_of_every_layout_are_read(written):
    tabs = written("tiger\tcat\t7.35\r\nice cream\tcone\t6\t1\t2\n")
    assert list(word_similarity.read(tabs)) == [("tiger", "cat", 7.35), ("ice cream", "cone", 6.0)]
    heading = written("Word 1,Word 2,Human (mean)\nlove,sex,6.77\n", "combined.csv")
    assert list(word_similarity.read(heading)) == [("love", "sex", 6.77)]
    without = written("word, phrase, 7\nlove, sex, 6.77\n")
    assert list(word_similarity.read(without)) == [("word", "phrase", 7), ("love", "sex", 6.77)]


@pytest.mark.parametrize("row", ["a\tb", "a\tb\tmuch", "a\t\t3", "a\tb\tnan", "a b 3"])
def test_a_row_that_is_no_scored_pair_is_named(written, row):
    with pytest.raises(DataError, match="line 2: expected word, word, score"):
        list(word_similarity.read(written(f"a\tb\t1\n{row}\n")))


ROW = "{}\tw\t_\tX\tX\t_\t0\tx\t_\t_\n"


@pytest.mark.parametrize(
    ("module", "read", "word", "end"),
    [
        (conllu, conllu.read, ROW, "\n"),
        (columns, lambda path: columns.read(path, ("word", "tag")), "w X\n", "\n"),
        (treebank, treebank.read, "(NN w)\n", ")\n"),
    ],
)
def test_a_sentence_has_a_last_word(written, monkeypatch, module, read, word, end):
    monkeypatch.setattr(module, "LONGEST_SENTENCE", 3)
    start = "(\n" if module is treebank else ""
    three, four = (start + "".join(word.format(i + 1) for i in range(n)) + end for n in (3, 4))
    assert len(list(read(written(three * 2)))) == 2
    with pytest.raises(DataError, match=r"line [45]: .*more than 3 words"):
        list(read(written(four)))
