"""Words and gold tags of the bracketed trees of the Penn Treebank (``.mrg``), without the empty elements.

A tree is ``( (S (NP (NNP Mr.) ...) ...) )``. Only its preterminals ``(TAG word)`` matter here. Those with the tag
``-NONE-`` are traces and other empty elements (Bies et al. 1995) and are left out. The source may be one ``.mrg``
file, a folder, or a zip file such as NLTK's ``treebank.zip``; in a folder or zip file, the files of a folder
``combined`` are read in the order of their names, or all ``.mrg`` files without such a folder.
"""

import lzma
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tacenda.corpus.lines import BLOCK_BYTES, LONGEST_SENTENCE, decode_blocks, numbered_lines
from tacenda.errors import CorpusError, DataError
from tacenda.reading import path_of

_TOKEN = re.compile(r"[()]|[^\s()]+")
_EMPTY = "-NONE-"
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]"}


class TaggedSentence(NamedTuple):
    """Words of one sentence and their Penn tags, of the same length."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


def unescape(word: str) -> str:
    r"""Return the word as it stood in the text: ``(`` for ``-LRB-``, ``1/2`` for ``1\/2``."""
    return _BRACKETS.get(word) or word.replace("\\/", "/").replace("\\*", "*")


def parse(lines: Iterable[tuple[int, str]], name: str) -> Iterator[TaggedSentence]:
    """Yield the sentences of bracketed trees, one tree at a time, from ``(number, line)`` pairs.

    Raises DataError, which calls the source ``name``, if brackets do not match, a word is outside a preterminal, or a
    tree has more than `LONGEST_SENTENCE` words.
    """
    words: list[str] = []
    tags: list[str] = []
    depth, number = 0, 0
    cells: list[str] = []  # atoms since the bracket that was opened last
    before = ""  # the token before
    for number, line in lines:
        for token in _TOKEN.findall(line):
            fault = None
            if token == "(":
                if len(cells) > 1:
                    fault = f"{cells[1]!r} is not the word of a (TAG word) bracket"
                depth, cells = depth + 1, []
            elif token != ")":
                if not depth:
                    fault = f"{token!r} is outside any tree"
                elif before == ")":
                    fault = f"{token!r} is in a bracket that is not (TAG word)"
                cells = [*cells[:2], token]
            else:
                if not depth:
                    fault = "a ) too many"
                elif len(cells) in {1, 3}:
                    fault = "a bracket that is not (TAG word)"
                elif cells and cells[0] != _EMPTY:
                    tags.append(cells[0])
                    words.append(unescape(cells[1]))
                if len(words) > LONGEST_SENTENCE:
                    fault = f"the tree has more than {LONGEST_SENTENCE:,} words"
                depth, cells = depth - 1, []
            if fault:
                raise DataError(f"{name}, line {number}: {fault}")
            if not depth and words:
                yield TaggedSentence(tuple(words), tuple(tags))
                words, tags = [], []
            before = token
    if depth:
        raise DataError(f"{name}, line {number}: the file ends inside a tree ({depth} ) missing)")


def read(path: str | Path) -> Iterator[TaggedSentence]:
    """Yield the tagged sentences of an ``.mrg`` file, of a folder or of a zip file of them.

    Raises DataError, which names file and line, if there is no file to read, or one is malformed.
    """
    path = path_of(path, DataError)
    if path.is_dir():
        names = [file.relative_to(path).as_posix() for file in path.rglob("*.mrg")]
        for name in _choose(names, path):
            yield from parse(numbered_lines(path / name), str(path / name))
    elif path.suffix.lower() == ".zip":
        yield from _read_zip(path)
    else:
        yield from parse(numbered_lines(path), str(path))


def _choose(names: Iterable[str], path: Path) -> list[str]:
    found = (name for name in names if name.endswith(".mrg"))
    # a Mac puts next to each file, or into the folder __MACOSX of a zip, a file ._NAME with its attributes
    trees = sorted(name for name in found if not Path(name).name.startswith("."))
    combined = [name for name in trees if "combined" in name.split("/")[:-1]]
    if not trees:
        raise DataError(f"{path} holds no .mrg files: name a treebank with bracketed trees")
    return combined or trees


def _read_zip(path: Path) -> Iterator[TaggedSentence]:
    try:
        with zipfile.ZipFile(path) as archive:
            for name in _choose(archive.namelist(), path):
                with archive.open(name) as member:
                    # pieces of bytes, then one empty piece
                    pieces = chain(iter(lambda: member.read(BLOCK_BYTES), b""), [b""])
                    file, advice = f"{path}:{name}", "convert the file to utf-8"
                    lines = chain.from_iterable(decode_blocks(pieces, file, advice=advice))
                    yield from parse(enumerate(lines, 1), file)
    except CorpusError as error:
        raise DataError(str(error)) from error
    except RuntimeError as error:  # a password, or a compression that Python lacks
        raise DataError(f"{path} cannot be unpacked ({error}): unpack it yourself") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error}): check it") from error
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        raise DataError(f"{path} is not a valid zip file ({error}): obtain it again") from error
