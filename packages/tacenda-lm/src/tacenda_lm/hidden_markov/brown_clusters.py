"""`BrownClusters`: the bit strings of words in a tree of Brown clusters, and the files they are exchanged in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from tacenda import store
from tacenda.corpus.lines import whole_number
from tacenda.corpus.text import Text, as_corpus
from tacenda.datasets.textfile import numbered_lines
from tacenda.errors import ConfigurationError, CorpusError, DataError
from tacenda_lm.hidden_markov.brown import agglomerate
from tacenda_lm.hidden_markov.classed_text import text_of

__all__ = ["LENGTHS", "BrownClusters", "brown_clusters"]

LENGTHS = (4, 6, 10, 20)
"""Lengths of prefixes that are usual as features of taggers (Ratinov and Roth 2009; Turian et al. 2010)."""


class BrownClusters:
    """Words at the leaves of a binary tree: those of one class share a bit string, similar classes a prefix.

    Parameters
    ----------
    rows
        Word, bit string and count of each word.

    Raises
    ------
    DataError
        A word occurs twice, a path is no bit string or begins with that of another class, or a count is
        negative.
    """

    def __init__(self, rows: Iterable[tuple[str, str, int]]) -> None:
        paths: dict[str, str] = {}
        counts: dict[str, int] = {}
        for word, path, count in rows:
            if word in paths:
                raise DataError(f"the word {word!r:.80} has two places among the clusters")
            if set(path) - {"0", "1"}:
                raise DataError(f"the path {path!r:.80} of {word!r:.80} must be of 0 and 1 only")
            if count < 0:
                raise DataError(f"the count of {word!r:.80} is {count}; counts are not negative")
            paths[word], counts[word] = path, count
        leaves = sorted(set(paths.values()))
        for one, two in pairwise(leaves):
            if two.startswith(one):
                raise DataError(f"the paths {one!r:.80} and {two!r:.80} are not leaves of one tree")
        self._paths, self._counts = MappingProxyType(paths), MappingProxyType(counts)

    @property
    def paths(self) -> Mapping[str, str]:
        """The bit string of each word, read-only."""
        return self._paths

    @property
    def counts(self) -> Mapping[str, int]:
        """How often each word occurred, read-only."""
        return self._counts

    @property
    def n_classes(self) -> int:
        """Leaves of the tree."""
        return len(set(self._paths.values()))

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, word: object) -> bool:
        return word in self._paths

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BrownClusters):
            return NotImplemented
        return self._paths == other._paths and self._counts == other._counts

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"BrownClusters({len(self)} words, {self.n_classes} classes)"

    def prefixes(self, word: str, lengths: Sequence[int] = LENGTHS) -> list[str]:
        """Return the first bits of a word's path for each length, or the whole path; [] for an unknown word."""
        path = self._paths.get(word)
        return [] if path is None else [path[:length] for length in lengths]

    def words(self, prefix: str = "") -> list[str]:
        """Return the words whose paths begin with ``prefix``, the most frequent first."""
        found = [word for word, path in self._paths.items() if path.startswith(prefix)]
        return sorted(found, key=lambda word: (-self._counts[word], word))

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write ``bits<TAB>word<TAB>count``, one word per line, as Liang's ``wcluster`` does; the file appears whole.

        Raises DataError for a word with a tab or line end in it, or a path that cannot be written.
        """
        place = store.path_of(file, DataError)
        lines = []
        for path, word in sorted((path, word) for word, path in self._paths.items()):
            if not word or any(end in word for end in "\t\n\r"):
                raise DataError(
                    f"the word {word!r:.80} cannot stand in a line of columns with tabs"
                )
            lines.append(f"{path}\t{word}\t{self._counts[word]}\n")
        try:
            with store.replacing(place) as part:
                part.write_text("".join(lines), encoding="utf-8", newline="")
        except OSError as error:
            raise DataError(f"cannot write {place}: {error.strerror or error}") from error

    @classmethod
    def load(cls, file: str | os.PathLike[str]) -> BrownClusters:
        """Read a file of `save` or of ``wcluster``, plain or compressed.

        Raises DataError, which names the line, for a file that is missing or not of this form.
        """
        rows = []
        for number, line in numbered_lines(store.path_of(file, DataError)):
            columns = line.rstrip("\r").split("\t")
            if columns == [""]:
                continue
            count = whole_number(columns[2]) if len(columns) == 3 else None
            if count is None:
                raise DataError(
                    f"{os.fspath(file)}, line {number}: expected bits, word and count with tabs between, "
                    f"not {line!r:.80}"
                )
            rows.append((columns[1], columns[0], count))
        try:
            return cls(rows)
        except DataError as error:
            raise DataError(f"{os.fspath(file)}: {error}") from error


def brown_clusters(text: Text, n_classes: int = 256, *, min_count: int = 1) -> BrownClusters:
    """Find Brown clusters of the words of a text; the same text always has the same clusters.

    Parameters
    ----------
    text
        A file (a ``Path``; whitespace tokens, one sentence per line), a string, sentences, or a corpus.
    n_classes
        Leaves of the tree; ``</s>`` has none, but is a neighbour like other words.
    min_count
        Rarer words get no class; as neighbours of others they count as one word.

    Raises
    ------
    ConfigurationError
        ``n_classes`` is not from 1 to the number of different words.
    CorpusError
        The text cannot be read or has no tokens.
    """
    corpus = as_corpus(text)
    if not corpus.n_tokens:
        raise CorpusError("the text has no tokens; there is nothing to cluster")
    counts, boundary = corpus.type_counts, corpus.vocabulary.boundary_id
    kept = (counts >= max(min_count, 1)) & (np.arange(len(counts)) != boundary)
    if not 1 <= n_classes <= int(kept.sum()):
        raise ConfigurationError(
            f"n_classes is {n_classes}, and must be from 1 to the number of different words, {kept.sum()}"
        )
    ids, _ = text_of(corpus)
    stream = np.concatenate([np.array([boundary], np.int32), ids])
    found = agglomerate(
        stream, len(counts), n_classes, boundary=boundary, min_count=max(min_count, 1)
    )
    paths, words = found.paths(), corpus.vocabulary.words
    return BrownClusters(
        (words[word], paths[group], int(counts[word]))
        for word, group in zip(found.order.tolist(), found.classes().tolist(), strict=True)
    )
