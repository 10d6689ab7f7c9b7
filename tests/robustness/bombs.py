"""Hostile files for every reader, and paths that are none: one clear error each, in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import spacy
from children import Cases, InvalidError, outcomes, require
from specimens import fitted, specimens

import tacenda
from tacenda import Corpus, artifact
from tacenda.corpus.text import sentences_of
from tacenda.datasets import columns, conllu, treebank, word_similarity
from tacenda.datasets.fetching import _read_record
from tacenda.errors import TacendaError
from tacenda.fitting.checkpoint import CheckpointFolder
from tacenda.ratings import read_ratings

MEMORY = 1 << 30  # bytes that a reader may take
_MB = 1 << 20
_DIGITS = "7" * 5000
_DEEP = "[" * 200_000


def _text_readers() -> dict[str, Callable[[Path], object]]:
    """Everything that reads lines, by name."""
    from tacenda_embeddings.text_vectors import embed_file
    from tacenda_lm import BrownClusters, KneserNey

    embedder = fitted("sumembed")

    def consumed(read: Callable[..., Iterator[Any]], *more: Any) -> Callable[[Path], object]:
        return lambda path: [None for _ in read(path, *more)]

    return {
        "Corpus.from_text": Corpus.from_text,
        "sentences_of": consumed(sentences_of),
        "perplexity": fitted("kneser_ney").perplexity,
        "embed_file": lambda path: [None for _ in embed_file(embedder, path, "whitespace")],
        "from_arpa": KneserNey.from_arpa,
        "BrownClusters.load": BrownClusters.load,
        "read_ratings": read_ratings,
        "conllu": consumed(conllu.read),
        "columns": consumed(columns.read, columns.CONLL2003),
        "ner": consumed(columns.read_ner),
        "treebank": consumed(treebank.read),
        "word_similarity": consumed(word_similarity.read),
    }


def _folder_readers() -> dict[str, tuple[str, Callable[[Path], object]]]:
    """What reads a manifest: the name of the file, and the reader of its folder."""
    component = spacy.blank("en").add_pipe("token_embeddings")
    return {
        "tacenda.load": ("model.json", tacenda.load),
        "Corpus.open": ("corpus.json", Corpus.open),
        "checkpoints": ("checkpoint.json", lambda folder: CheckpointFolder(folder).read()),
        "dataset": ("tacenda-dataset.json", _read_record),
        "a spaCy component": ("cfg.json", component.from_disk),
    }


def _endless(size: int, short: bool) -> dict[str, bytes]:
    """Compressed files of one line of ``size`` bytes: one piece, compressed once and repeated."""
    kinds = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}
    return {
        f"a line of {size:,} {what} in .{kind}": pack(byte * 16 * _MB) * (size // (16 * _MB))
        for kind, pack in kinds.items()
        for what, byte in (("letters", b"a"), ("zeros", b"\0"))
        if not short or (kind, what) == ("gz", "letters")
    }


def _contents(short: bool) -> dict[str, bytes]:
    """Contents that are no file of any kind, or too much of one."""
    header = "\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n-1\t<unk>\n-1\t<s>\n-1\t</s>\n"
    row = "1\tword\t_\tX\tX\t_\t{}\t_\t_\t_\n\n"
    return {
        **_endless(6 << 30, short),
        "zeros": b"\0" * (3 * _MB),
        "bytes that are no UTF-8": b"a b 1\n\xff\xfe\x80 b 2\n",
        "UTF-16": "a b 1\n".encode("utf-16"),
        "noise": os.urandom(100_000),
        "half a .gz": gzip.compress(os.urandom(100_000))[:50_000],
        "half a .xz": lzma.compress(os.urandom(100_000))[:50_000],
        "a .xz that asks for four gigabytes": _greedy(),
        "a count of 5,000 digits": f"\\data\\\nngram 1={_DIGITS}\n".encode(),
        "an order of 5,000 digits": f"\\data\\\nngram {_DIGITS}=1\n".encode(),
        "a probability of 5,000 digits": f"{header}-{_DIGITS}\ta\n\n\\end\\\n".encode(),
        "a back-off of 5,000 digits": f"{header}-1\ta\t{_DIGITS}\n\n\\2-grams:\n-1\ta a\n\n\\end\\\n".encode(),
        "a head of 5,000 digits": row.format(_DIGITS).encode(),
        "a token number of 5,000 digits": f"{_DIGITS}-{_DIGITS}\tx{chr(9) * 8}\n".encode(),
        "a cluster's count of 5,000 digits": f"01\tword\t{_DIGITS}\n".encode(),
        "ids of 5,000 digits": f"{_DIGITS}\t{_DIGITS}\t3\n1\t2\t3\n".encode(),
        "a rating of 5,000 digits": f"1\t2\t{_DIGITS}\n".encode(),
        **{
            f"a rating of {x}": f"1,2,{x}\n".encode()
            for x in ("nan", "inf", "1e999", "1e300", "0x10")
        },
        "a field of 200,000 characters": f'1,"{"x" * 200_000}",3\n'.encode(),
        "a quote without an end": b'1,"2,3\n1,2,3\n',
        "brackets without an end": b"(" * 500_000,
        "a row of 400,000 cells": b"a\t" * 400_000 + b"\n",
    }


def _greedy() -> bytes:
    """A small .xz file whose header asks for the largest dictionary there can be."""
    data = bytearray(lzma.compress(b"a"))
    end = 12 + 4 * data[12]  # of the header of the first block, before its check sum
    data[16] = 40
    data[end : end + 4] = zlib.crc32(data[12:end]).to_bytes(4, "little")
    return bytes(data)


def _manifests() -> dict[str, bytes]:
    """Manifests that are none."""
    return {
        "deep": _DEEP.encode(),
        "deep and sound": f'{{"format": {"[" * 900}{"]" * 900}}}'.encode(),
        "a number of 5,000 digits": f'{{"format": {_DIGITS}}}'.encode(),
        "1e999": b'{"format": 1e999}',
        "NaN": b'{"format": NaN}',
        "a key twice": b'{"format": 1, "format": 1}',
        "no UTF-8": b'{"format": "\xff"}',
        "no object": b"[1]",
        "nothing": b"",
        "zeros": b"\0" * 1000,
    }


def _zip_of_zeros() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("combined/wsj_0001.mrg", b"a" * (64 * _MB))
    return packed.getvalue()


#: Sentences without an end, for readers that collect the rows of one.
_SENTENCES = {
    "columns": ("rows without a blank one", b"word X X X\n"),
    "ner": ("rows without a blank one", b"word O\n"),
    "treebank": ("brackets that never close", b"( (NN word)\n"),
}


def readers(short: bool, folder: Path) -> Cases:
    """Give every reader every hostile file."""
    cases: dict[str, Callable[[], object]] = {}
    text_readers = _text_readers()
    for i, (what, content) in enumerate(_contents(short).items()):
        path = folder / f"content-{i}"
        path.write_bytes(content)
        for name, read in text_readers.items():
            cases[f"{name}: {what}"] = partial(_named, read, path)
    for name, (what, row) in _SENTENCES.items():
        path = folder / f"sentence-{name}"
        path.write_bytes(gzip.compress(row * _MB) * 500)
        cases[f"{name}: {what}"] = partial(_refused, text_readers[name], path)
    zipped = folder / "trees.zip"
    zipped.write_bytes(_zip_of_zeros())
    cases["treebank: a .zip of one line"] = partial(_named, text_readers["treebank"], zipped)
    for i, (what, content) in enumerate(_manifests().items()):
        for name, (file, read) in _folder_readers().items():
            place = folder / f"manifest-{i}-{name}"
            place.mkdir()
            (place / file).write_bytes(content)
            cases[f"{name}: a manifest, {what}"] = partial(_refused, read, place)
    for name, (file, read) in _folder_readers().items():
        for what in ("6 GB", "pipe", "folder"):
            place = folder / f"{what}-{name}"
            place.mkdir()
            if what == "pipe":
                os.mkfifo(place / file)
            elif what == "folder":
                (place / file).mkdir()
            else:
                with (place / file).open("wb") as sparse:
                    sparse.truncate(6 << 30)
            cases[f"{name}: a manifest that is a {what}"] = partial(_refused, read, place)
    for what, content in _manifests().items():
        cases[f"from_bytes: {what}"] = partial(_refused, artifact.Artifact.from_bytes, content)
    yield from zip(cases, outcomes(list(cases.values()), memory=MEMORY), strict=True)


def paths(folder: Path) -> Cases:
    """Give everything that takes a path what is none."""
    from tacenda_lm import BrownClusters, KneserNey

    model, algorithm = fitted("kneser_ney"), fitted("pmf")
    embedder = fitted("sumembed")
    takers: dict[str, Callable[[Any], object]] = {
        **{
            name: read
            for name, read in _text_readers().items()
            if name not in ("Corpus.from_text", "perplexity")
        },
        **{name: read for name, (_, read) in _folder_readers().items() if name != "dataset"},
        "save": model.save,
        "load": KneserNey.load,
        "artifact.read": artifact.read,
        "save an algorithm": algorithm.save,
        "load an algorithm": type(algorithm).load,
        "to_arpa": model.to_arpa,
        "save_word2vec": embedder.save_word2vec,
        "save clusters": BrownClusters([("a", "0", 1)]).save,
        "cache": lambda path: Corpus.from_sentences([["a"]], cache=path),
        "checkpoints of a model": lambda path: specimens()["hmm"].fit(checkpoints=path),
        "checkpoints of an algorithm": lambda path: specimens()["pmf"].fit(checkpoints=path),
    }
    strange: list[Any] = [None, 3, b"x", ["x"], "x\0y", Path("x\0y"), "\ud800", "x" * 5000]
    cases = {
        f"{name} of {path!r:.40}": partial(_refused, use, path)
        for name, use in takers.items()
        for path in strange
        if not isinstance(path, _SENSIBLE.get(name, ()))
    }
    with chdir(folder):
        found = outcomes(list(cases.values()), memory=MEMORY)
    yield from zip(cases, found, strict=True)


_SENSIBLE: dict[str, tuple[type, ...]] = {
    "sentences_of": (str, list),  # text, and sentences
    "cache": (type(None),),
    "checkpoints of a model": (type(None),),
    "checkpoints of an algorithm": (type(None),),
}


def _named(read: Callable[[Path], object], path: Path) -> None:
    """Read a file; an error must name it."""
    try:
        read(path)
    except TacendaError as error:
        require(path.name in str(error), f"an error that does not name the file: {error}")
        raise


def _refused(use: Callable[[Any], object], place: Any) -> None:
    """Use what cannot be used."""
    use(place)
    raise InvalidError("an answer where an error was due")
