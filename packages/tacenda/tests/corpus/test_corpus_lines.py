import bz2
import gzip
import io
import json
import lzma
import os
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.processes import output_of
from support.texts import decode
from tacenda.corpus import Corpus
from tacenda.corpus import lines as corpus_lines
from tacenda.errors import CorpusError
from tacenda.reading import whole_number

TEXT = "The cat sat.\n\nÉté à la plage\r\nend"
SENTENCES = [["The", "cat", "sat."], ["Été", "à", "la", "plage"], ["end"]]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress, bz2.compress])
@pytest.mark.parametrize("block", [1, 3, 1 << 17])
def test_plain_and_compressed_files_read_the_same(write_file, compress, block, monkeypatch):
    monkeypatch.setattr(corpus_lines, "BLOCK_BYTES", block)
    path = write_file("text.any", compress(TEXT.encode()))  # known by content, not by name
    assert decode(Corpus.from_text(path)) == SENTENCES


def test_a_text_may_begin_like_a_bzip2_file(write_file):
    for word in ("BZh", "BZh9", "BZh91AY&SX"):
        assert decode(Corpus.from_text(write_file("text.txt", f"{word} is a word".encode()))) == [
            [word, "is", "a", "word"]
        ]
    with pytest.raises(CorpusError, match="there are no tokens"):
        Corpus.from_text(write_file("empty.bz2", bz2.compress(b"")))


def test_several_files_follow_each_other(tmp_path):
    paths = [tmp_path / name for name in ("b.txt", "a.txt.xz")]
    paths[0].write_text("one two")  # no line end: the next file still starts a new sentence
    paths[1].write_bytes(lzma.compress(b"three\n"))
    for text in (paths, iter(paths)):
        corpus = Corpus.from_text(text)
        assert decode(corpus) == [["one", "two"], ["three"]]
        assert corpus.origin["sources"] == ["b.txt", "a.txt.xz"]


def test_lines_come_from_lists_generators_and_open_files():
    for lines in (["a b", "c"], iter(["a b\n", "c\r\n"]), io.StringIO("a b\nc")):
        assert decode(Corpus.from_text(lines)) == [["a", "b"], ["c"]]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(st.sampled_from("aé😀 \r\n\u2028\x85\x0b\x00\ufeff"), max_size=40),
    st.sampled_from(["utf-8", "utf-16", "utf-16-le"]),
    st.integers(1, 9),
)
def test_only_newlines_end_lines_wherever_blocks_end(tmp_path_factory, text, encoding, size):
    path = tmp_path_factory.mktemp("lines") / "text.txt"
    path.write_bytes(text.encode(encoding))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_lines, "BLOCK_BYTES", size)
        lines = [line for block in corpus_lines.read_blocks(path, encoding) for line in block]
    expected = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    assert lines == (expected if expected[-1] else expected[:-1])


def test_a_byte_order_mark_is_no_part_of_the_first_word(write_file):
    path = write_file("bom.txt", "\ufeffword word".encode())
    for text in (path, "\ufeffword word", path.read_text("utf-8").splitlines()):
        assert decode(Corpus.from_text(text)) == [["word", "word"]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            iter(["a b", Path("a.txt")]),
            r'several files as a list, e.g. sorted\(folder.glob\("\*.txt"\)\)',
        ),
        ([["a", "b"]], "use Corpus.from_sentences"),
        ([b"a b"], "line 1 of the text is a bytes, not a string; give lines as strings"),
        (b"a b", "a text is a path, a string or sentences, not b'a b', a bytes"),
        ({"text": "a b"}, "a text is a path, a string or sentences, not {'text': 'a b'}, a dict"),
        (None, "not None, a NoneType"),
        (5, "not 5, a int"),
    ],
    ids=["paths", "sentences", "lines of bytes", "bytes", "a mapping", "None", "number"],
)
def test_what_is_no_text_is_refused_with_what_to_give_instead(text, said):
    with pytest.raises(CorpusError, match=said):
        Corpus.from_text(text)


def test_a_vocabulary_is_no_corpus_or_list_of_words():
    for wrong in (Corpus.from_text("a b"), ["a", "b"]):
        with pytest.raises(CorpusError, match="give a Vocabulary, such as that of a corpus"):
            Corpus.from_text("a b", vocabulary=wrong)


@pytest.mark.parametrize(
    "text",
    ["a b\r\nc\nd", "a b\n", "a\r\n", "a\n\n", "\n", "a\r", "a\rb\n\rc", "a\r\r\n", "foo\n\r\n"],
)
def test_lines_end_alike_in_a_file_a_string_and_json(write_file, text):
    forms = (
        write_file("t.txt", text.encode()),
        write_file("t.jsonl", json.dumps({"text": text}).encode()),
        text,
        io.StringIO(text, newline="\n"),
    )
    expected, *others = ([*chain(*corpus_lines.text_blocks(form))] for form in forms)
    assert others == [expected] * 3


def test_nul_and_other_controls_are_kept(write_file):
    path = write_file("nul.txt", b"a\x00b c\n\x00")
    assert decode(Corpus.from_text(path)) == [["a\x00b", "c"], ["\x00"]]


def test_undecodable_bytes_are_replaced_or_read_in_another_encoding(write_file):
    path = write_file("latin.txt", b"caf\xe9 au lait\n")
    with pytest.raises(CorpusError, match=r'latin.txt is not utf-8 at .*errors="replace"'):
        Corpus.from_text(path)
    assert decode(Corpus.from_text(path, errors="replace")) == [["caf\ufffd", "au", "lait"]]
    assert decode(Corpus.from_text(path, encoding="latin-1")) == [["café", "au", "lait"]]


# these characters have bytes 0x0a that end no line
WIDE = "a\n\u0a0a\u0a41\u410a b"


@pytest.mark.parametrize("size", [1, 2, 5, 7, 1 << 17])
@pytest.mark.parametrize(
    ("good", "bad", "encoding", "line"),
    [
        ("fine\nstill é fine\ncaf".encode(), b"\xe9 au lait\n", "utf-8", 3),
        (b"abc ", "é".encode()[:-1], "utf-8", 1),
        (b"\xef\xbb\xbfa\nb\n\n", b"\xe9 c\n", "utf-8", 4),
        (b"\xef\xbb\xbfa\nb\n\n", b"\xe9 c\n", "utf-8-sig", 4),
        (WIDE.encode("utf-16"), "\udc00".encode("utf-16-le", "surrogatepass"), "utf-16", 2),
        (WIDE.encode("utf-16-be"), "\udc00".encode("utf-16-be", "surrogatepass"), "utf-16-be", 2),
    ],
)
def test_undecodable_bytes_are_located(write_file, good, bad, encoding, line, size, monkeypatch):
    monkeypatch.setattr(corpus_lines, "BLOCK_BYTES", size)
    path = write_file("text.txt", good + bad)
    with pytest.raises(
        CorpusError, match=rf"line {line}, byte offset {len(good)} \(0x{bad[:1].hex()}"
    ):
        Corpus.from_text(path, encoding=encoding)


@pytest.mark.parametrize("line", ["foo\r\r\n", "foo\r", "foo\n", "foo\r\n", "foo"])
def test_a_line_of_an_iterable_ends_as_in_a_file(write_file, line):
    path = write_file("line.txt", line.encode())
    assert list(corpus_lines.line_blocks([line])) == list(corpus_lines.read_blocks(path))


@pytest.mark.parametrize(
    ("compress", "kind"), [(gzip.compress, "gzip"), (lzma.compress, "xz"), (bz2.compress, "bzip2")]
)
def test_a_truncated_archive_is_an_error(write_file, compress, kind):
    path = write_file("text", compress(b"some words " * 500)[:-20])
    with pytest.raises(CorpusError, match=f"text is a damaged {kind} file"):
        Corpus.from_text(path)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (Path(__file__).parent, r"is a directory, not a text file.*glob"),
        (Path("nowhere"), "there is no file 'nowhere'"),
        (Path("a text that is no path\n" * 50), "there is no file 'a text"),
        (Path("nul\0byte"), r"'nul\\x00byte' cannot name a file"),
    ],
)
def test_a_path_that_is_no_file_is_named(path, said):
    for source in (path, [path]):
        with pytest.raises(CorpusError, match=said):
            Corpus.from_text(source)


def test_an_unreadable_file_is_named(write_file, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(13, "no such luck")

    path = write_file("text.txt", "a")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CorpusError, match=r"cannot read .*text\.txt: no such luck"):
        list(corpus_lines.read_blocks(path))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("encoding", "utf-99"),
        ("encoding", "rot13"),
        ("encoding", "base64"),
        ("errors", "shrug"),
        ("errors", "xmlcharrefreplace"),
        ("errors", "surrogateescape"),
    ],
)
def test_encodings_and_handlers_that_are_none_are_named(write_file, option, value):
    path = write_file("text.txt", "a")
    with pytest.raises(CorpusError, match=f"{option} is '{value}'"):
        Corpus.from_text(path, **{option: value})


def test_progress_counts_the_bytes_of_the_files(tmp_path):
    plain, packed = tmp_path / "a.txt", tmp_path / "b.xz"
    plain.write_text("some words\n" * 100_000)
    packed.write_bytes(lzma.compress(plain.read_bytes()))
    for path in (plain, packed):
        seen = []
        for _ in corpus_lines.byte_chunks(path, seen.append):
            pass
        assert sum(seen) == path.stat().st_size


@pytest.mark.parametrize("size", [1, 7, 40])
@pytest.mark.parametrize("end", ["", "\n", "\nmore\n"])
def test_a_line_may_have_so_many_characters_and_not_one_more(write_file, size, end, monkeypatch):
    monkeypatch.setattr(corpus_lines, "BLOCK_BYTES", size)
    path = write_file("text", "short\n" + "é" * 50 + end)
    lines = [line for block in corpus_lines.read_blocks(path, longest=50) for line in block]
    assert lines[1] == "é" * 50
    with pytest.raises(CorpusError, match=r"text, line 2: the line has more than 49 characters"):
        list(corpus_lines.read_blocks(path, longest=49))


@pytest.mark.skipif(os.name != "posix", reason="limits the memory of a child")
@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress])
def test_a_few_bytes_that_unpack_to_gigabytes_are_refused_in_bounded_memory(write_file, compress):
    path = write_file("bomb", compress(b"a" * (1 << 24)) * 384)  # 6 GiB
    script = """
import resource, sys
from pathlib import Path
from tacenda.corpus import Corpus
from tacenda.errors import CorpusError
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29),) * 2)
try:
    Corpus.from_text(Path(sys.argv[1]))
except CorpusError as error:
    print(error)
"""
    said = output_of("-c", script, path)
    assert "line 1: the line has more than 134,217,728 characters" in said


@pytest.mark.parametrize(
    ("digits", "number"),
    [
        ("0", 0),
        ("007", 7),
        ("0" * 5000 + "1", 1),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        ("9" * 5000, None),
        ("", None),
        ("-1", None),
        ("1_0", None),
        ("²", None),
        ("٣", None),
    ],
)
def test_whole_numbers_are_ascii_digits_below_two_to_the_63rd(digits, number):
    assert whole_number(digits) == number
