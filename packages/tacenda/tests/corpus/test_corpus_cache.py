import errno
import json
import os
import shutil
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from tacenda.corpus import Corpus, storage
from tacenda.errors import CorpusError, TacendaWarning

LINES = ["the cat sat on the mat", "a dog", "the end"]


@pytest.fixture
def text(write_file):
    return write_file("text.txt", "\n".join(LINES))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "a" / "cache"  # its parent is not there either


@pytest.fixture
def cached(text, folder):
    """The folder of a corpus of the text."""
    Corpus.from_text(text, cache=folder)
    return folder


def decoded(corpus):
    return [" ".join(corpus.vocabulary.decode(sentence)) for sentence in corpus]


def refuse_tokenizing(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("the text was tokenized again")

    monkeypatch.setattr("tacenda.corpus.word_ids.encode_block", refuse)


def test_an_opened_corpus_is_the_one_that_was_built(text, folder):
    built = Corpus.from_text(text, cache=folder, digits=True, oov="classes", min_count=2)
    opened = Corpus.open(folder)
    assert isinstance(opened.ids, np.memmap)
    assert opened.ids.tolist() == built.ids.tolist()
    assert opened.offsets.tolist() == built.offsets.tolist()
    assert opened.vocabulary == built.vocabulary
    origin = {"sources": ["text.txt"], "tokenizer": "whitespace", "min_count": 2}
    assert opened.origin == built.origin == origin
    with pytest.raises(ValueError, match="read-only"):
        opened.ids[0] = 1


def test_the_same_sources_and_settings_use_the_cache(text, folder, monkeypatch):
    first = Corpus.from_text(text, cache=folder, max_vocabulary=3)
    refuse_tokenizing(monkeypatch)
    again = Corpus.from_text(text, cache=str(folder), max_vocabulary=3)
    assert decoded(again) == decoded(first)


def rewrite(text):
    text.write_text("the dog sat on the mat\na dog\nthe end")  # as long as before


@pytest.mark.parametrize(
    "change",
    [
        {"max_vocabulary": 3},
        {"min_count": 2},
        {"digits": True},
        {"lowercase": True},
        {"oov": "classes"},
        {"tokenizer": "words"},
        {"errors": "replace"},
        {"encoding": "latin-1"},
        {"cache_key": "second"},
        rewrite,
    ],
)
def test_changed_sources_or_settings_build_anew(text, folder, change):
    kept = Corpus.from_text(text, cache=folder)
    before = decoded(kept)
    if callable(change):
        change(text)
        change = {}
    again = Corpus.from_text(text, cache=folder, **change)
    fresh = Corpus.from_text(text, **{k: v for k, v in change.items() if k != "cache_key"})
    assert decoded(again) == decoded(fresh)
    assert again.vocabulary == fresh.vocabulary
    assert sorted(p.name[:6] for p in folder.iterdir()) == ["build-", "corpus"]
    assert decoded(kept) == before  # its files are gone, but it had them open


def test_another_vocabulary_builds_anew_and_the_same_does_not(text, folder, monkeypatch):
    one = Corpus.from_text(["the cat"]).vocabulary
    other = Corpus.from_text(["the dog"]).vocabulary
    Corpus.from_text(text, vocabulary=one, cache=folder)
    corpus = Corpus.from_text(text, vocabulary=other, cache=folder)
    assert decoded(corpus)[1] == "<unk> dog"
    refuse_tokenizing(monkeypatch)
    assert Corpus.from_text(text, vocabulary=other, cache=folder).vocabulary is other


def test_iterables_and_callables_are_reused_only_by_their_key(folder):
    assert decoded(Corpus.from_text(["one"], cache=folder)) == ["one"]
    assert decoded(Corpus.from_text(["two"], cache=folder)) == ["two"]
    assert decoded(Corpus.from_text(["three"], cache=folder, cache_key="v1")) == ["three"]
    assert decoded(Corpus.from_text(["four"], cache=folder, cache_key="v1")) == ["three"]
    assert decoded(Corpus.from_sentences([["five"]], cache=folder, cache_key="v2")) == ["five"]
    assert decoded(Corpus.from_sentences([["six"]], cache=folder, cache_key="v2")) == ["five"]
    with pytest.raises(CorpusError, match=r"cache_key is datetime\.date\(.*\); give a text"):
        Corpus.from_text(["seven"], cache=folder, cache_key=date(2026, 1, 2))
    assert decoded(Corpus.from_text(["ab"], tokenizer=list, cache=folder)) == ["a b"]


def test_a_failed_build_leaves_the_corpus_that_was_there(cached):
    def failing():
        yield ["one"]
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        Corpus.from_sentences(failing(), cache=cached)
    with pytest.raises(CorpusError, match="no tokens"):
        Corpus.from_sentences([], cache=cached)
    assert decoded(Corpus.open(cached)) == LINES
    assert len(list(cached.iterdir())) == 2


@pytest.mark.parametrize("call", [1, 3, 5, 8])
def test_a_full_disk_is_a_clear_error_and_leaves_the_old_corpus(cached, monkeypatch, call):
    real, calls = os.fsync, 0

    def full(descriptor):
        nonlocal calls
        calls += 1
        if calls >= call:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    if call == 8:  # not while saving, but while the ids are written
        monkeypatch.setattr(storage.GrowingArray, "append", lambda self, _: _full(self._path))
    else:
        monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CorpusError, match=r"cannot write .*No space left"):
        Corpus.from_text(["new"], cache=cached)
    monkeypatch.undo()
    assert decoded(Corpus.open(cached)) == LINES
    assert len(list(cached.iterdir())) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_disk_is_found_when_few_values_are_appended():
    array = storage.GrowingArray(np.int32, Path("/dev/full"))
    with pytest.raises(CorpusError, match="No space left"):
        array.append(np.arange(2))


def test_a_cache_that_somebody_removes_during_the_build_is_a_clear_error(folder):
    def sentences():
        yield ["one"]
        shutil.rmtree(folder)
        yield ["two"]

    with pytest.raises(CorpusError, match=r"cannot write .*No such file"):
        Corpus.from_sentences(sentences(), cache=folder)


def test_too_little_memory_is_no_damage(cached, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(np, "load", refuse)
    with pytest.raises(CorpusError, match="cannot be read: Cannot allocate memory"):
        Corpus.open(cached)


def _full(path):
    with storage.writing(path):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_folder_with_other_files_is_not_touched(text, tmp_path):
    with pytest.raises(CorpusError, match=r"holds other files, such as 'text\.txt'"):
        Corpus.from_text(text, cache=tmp_path)
    with pytest.raises(CorpusError, match="is a file; give a folder"):
        Corpus.from_text(text, cache=text)
    assert list(tmp_path.iterdir()) == [text]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"name": "mine"}', "does not describe a corpus"),
        ("[1]", "does not describe a corpus"),
        ('{"format": "x"}', "does not describe a corpus"),
        ('{"format": "tacenda-corpus", "version": 2}', "format version 2, .* reads 1.*update"),
    ],
)
def test_a_foreign_or_later_manifest_is_neither_opened_nor_overwritten(
    text, tmp_path, content, said
):
    manifest = tmp_path / "cache" / "corpus.json"
    manifest.parent.mkdir()
    manifest.write_text(content)
    for use in (Corpus.open, lambda folder: Corpus.from_text(text, cache=folder)):
        with pytest.raises(CorpusError, match=said):
            use(manifest.parent)
    assert manifest.read_text() == content


def edit(folder, **entries):
    path = folder / "corpus.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


@pytest.mark.parametrize(
    "entries",
    [
        {"data": "../elsewhere"},
        {"data": "build-/../../etc"},
        {"data": 3},
        {"n_tokens": -1},
        {"n_tokens": "9"},
        {"n_types": True},
        {"vocabulary": []},
        {"fingerprint": 5},
        {"origin": None},
    ],
)
def test_a_damaged_manifest_is_refused(cached, entries):
    edit(cached, **entries)
    with pytest.raises(CorpusError, match=r"damaged at|no corpus has"):
        Corpus.open(cached)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_an_unreadable_manifest_is_refused(cached, content):
    (cached / "corpus.json").write_bytes(content)
    with pytest.raises(CorpusError, match=r"corpus\.json cannot be read"):
        Corpus.open(cached)


def altered(change):
    """Change the bytes of a file."""
    return lambda path: path.write_bytes(change(path.read_bytes()))


def described(text):
    """Put another description of the array, which numpy reads as Python code, into the file."""
    return altered(lambda data: data[:10] + text.ljust(117).encode()[:117] + b"\n")


HARMS = {
    "cut": altered(lambda data: data[:-4]),
    "longer": altered(lambda data: data + b"1234"),
    "of another kind": altered(lambda data: b"PK" + data[2:]),
    "empty": altered(lambda data: b""),
    "of another dtype": lambda path: np.save(path, np.load(path).astype(np.float32)),
    "removed": os.remove,
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),  # which is not waited for
    "half a description": described("{'descr': '<i4', 'shape': ("),
    "no description": described("-" * 117),
    "a shape of no number": described("{'descr': '<i4', 'fortran_order': False, 'shape': (True,)}"),
}


@pytest.mark.parametrize("name", ["ids", "offsets", "vocabulary.text", "vocabulary.counts"])
@pytest.mark.parametrize("harm", HARMS)
def test_damaged_arrays_are_refused_and_rebuilt(text, cached, name, harm):
    HARMS[harm](next(cached.glob("build-*")) / f"{name}.npy")
    with pytest.raises(CorpusError, match=rf"{name}\.npy .*build the corpus again"):
        Corpus.open(cached)
    with pytest.warns(UserWarning, match=rf"{name}.*building it again now"):
        corpus = Corpus.from_text(text, cache=cached)
    assert decoded(corpus) == decoded(Corpus.open(cached)) == LINES


@pytest.mark.parametrize(
    ("name", "position", "value", "message"),
    [
        ("ids", 2, -1, r"damaged \(ids are beyond .* vocabulary\); build it again"),
        ("ids", 9, 1000, r"damaged \(ids are beyond .* vocabulary\); build it again"),
        ("offsets", 0, 1, "sentence offsets must ascend .* build it again"),
        ("offsets", 1, 9, "sentence offsets must ascend .* build it again"),
        ("offsets", 1, 8, "sentence offsets must ascend .* build it again"),
        ("offsets", slice(1, 3), (2**63 - 1, -2), "sentence offsets must ascend"),
        ("vocabulary.offsets", 2, 10**9, "'vocabulary.offsets' .*must ascend"),
        ("vocabulary.counts", 0, -1, "negative count"),
    ],
)
@pytest.mark.parametrize("pass_items", [1, 2, 1 << 22])
def test_impossible_values_are_refused(
    cached, name, position, value, message, pass_items, monkeypatch
):
    path = next(cached.glob("build-*")) / f"{name}.npy"
    array = np.load(path)
    array[position] = value
    np.save(path, array)
    monkeypatch.setattr("tacenda.corpus.storage.PASS_ITEMS", pass_items)
    monkeypatch.setattr("tacenda.offsets._BLOCK", pass_items)
    with pytest.raises(CorpusError, match=message):
        Corpus.open(cached)


def test_a_folder_without_a_corpus_is_named(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(CorpusError, match=r"holds no corpus \(corpus.json is missing\)"):
            Corpus.open(folder)


def test_a_corpus_can_be_moved(cached, tmp_path):
    shutil.move(cached, tmp_path / "moved")
    assert decoded(Corpus.open(tmp_path / "moved")) == LINES


def test_another_job_that_fills_the_cache_meanwhile_changes_no_text(
    write_file, tmp_path, monkeypatch
):
    one = write_file("one.txt", "one two three\n" * 100)
    two = write_file("two.txt", "four five\n" * 100)
    Corpus.from_text(one, cache=tmp_path / "c")
    read = storage.read_manifest

    def read_and_lose(folder):
        """Read the manifest, after which another job commits its own."""
        found = read(folder)
        monkeypatch.setattr(storage, "read_manifest", read)
        Corpus.from_text(two, cache=tmp_path / "c")
        return found

    monkeypatch.setattr(storage, "read_manifest", read_and_lose)
    with pytest.warns(TacendaWarning, match="building it again"):
        found = Corpus.from_text(one, cache=tmp_path / "c")
    assert set(found.vocabulary.words) >= {"one", "two", "three"}
    assert "four" not in found.vocabulary


def test_limits_of_numpy_are_stored_as_json(text, folder):
    for _ in range(2):
        corpus = Corpus.from_text(
            text, cache=folder, min_count=np.int64(1), max_vocabulary=np.int32(9)
        )
        assert json.loads(json.dumps(corpus.origin))["max_vocabulary"] == 9
