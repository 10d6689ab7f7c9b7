"""Brown clusters (Brown et al. 1992): words with bit strings, their text file, and the clusters of a text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from numbers import Integral
from types import MappingProxyType
from typing import Any

import numpy as np

from tacenda import reading, store
from tacenda.corpus.lines import numbered_lines
from tacenda.corpus.text import Text, as_corpus
from tacenda.errors import ConfigurationError, CorpusError, DataError, check_whole
from tacenda_lm.sequences import encode_corpus

LENGTHS = (4, 6, 10, 20)
"""Lengths of prefixes that are common as features of taggers (Ratinov and Roth 2009; Turian et al. 2010)."""


class BrownClusters:
    """Words at the leaves of a binary tree: words of one class share a bit string, similar classes share a prefix.

    ``rows`` are word, bit string and count of each word. The attributes ``paths``, the bit strings of words, and
    ``counts``, how often each occurred, are read-only. Raises DataError if a row has not these three, a word is no
    string or occurs twice, a path is no bit string or begins with the bits of another class, or a count is negative or
    no whole number.
    """

    def __init__(self, rows: Iterable[tuple[str, str, int]]) -> None:
        paths: dict[str, str] = {}
        counts: dict[str, int] = {}
        for row in rows:
            try:
                word, path, count = row
            except (TypeError, ValueError):
                raise DataError(f"{row!r:.80} is not a word, its path and its count") from None
            if not isinstance(word, str):
                raise DataError(f"the word {word!r:.80} is not a string")
            if word in paths:
                raise DataError(f"the word {word!r:.80} is in the clusters twice")
            if not isinstance(path, str) or set(path) - {"0", "1"}:
                raise DataError(f"the path {path!r:.80} of {word!r:.80} is no string of 0 and 1")
            if not isinstance(count, Integral) or isinstance(count, bool) or count < 0:
                raise DataError(
                    f"the count of {word!r:.80} is {count!r:.80}, and must be a whole number that is not negative"
                )
            paths[word], counts[word] = path, int(count)
        leaves = sorted(set(paths.values()))
        for path, following in pairwise(leaves):
            if following.startswith(path):
                raise DataError(
                    f"the paths {path!r:.80} and {following!r:.80} are not leaves of one tree"
                )
        self.paths: Mapping[str, str] = MappingProxyType(paths)
        self.counts: Mapping[str, int] = MappingProxyType(counts)

    @property
    def n_classes(self) -> int:
        """The number of leaves of the tree."""
        return len(set(self.paths.values()))

    def __len__(self) -> int:
        return len(self.paths)

    def __contains__(self, word: object) -> bool:
        return word in self.paths

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BrownClusters):
            return NotImplemented
        return self.paths == other.paths and self.counts == other.counts

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return BrownClusters, ([(word, self.paths[word], n) for word, n in self.counts.items()],)

    def __repr__(self) -> str:
        return f"BrownClusters({len(self)} words, {self.n_classes} classes)"

    def prefixes(self, word: str, lengths: Sequence[int] = LENGTHS) -> list[str]:
        """Return the first bits of a word's path for each length, or the whole path; [] for an unknown word."""
        path = self.paths.get(word)
        return [] if path is None else [path[:length] for length in lengths]

    def words(self, prefix: str = "") -> list[str]:
        """Return the words whose paths begin with ``prefix``, the most frequent first."""
        words = [word for word, path in self.paths.items() if path.startswith(prefix)]
        return sorted(words, key=lambda word: (-self.counts[word], word))

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write ``bits<TAB>word<TAB>count``, one word per line, as Liang's ``wcluster`` does.

        The file appears only when it is complete. Raises DataError for a word that is empty or contains a tab, a
        line end or half of a surrogate pair, or a path that cannot be written.
        """
        place = reading.path_of(file, DataError)
        lines = []
        for path, word in sorted((path, word) for word, path in self.paths.items()):
            if not word or any(end in word for end in "\t\n\r"):
                raise DataError(
                    f"the word {word!r:.80} cannot be written to a file: words in a file are not empty, and contain "
                    "no tabs and no line ends"
                )
            lines.append(f"{path}\t{word}\t{self.counts[word]}\n")
        with store.replacing(place) as part:
            part.write_text("".join(lines), encoding="utf-8", newline="")

    @classmethod
    def load(cls, file: str | os.PathLike[str]) -> BrownClusters:
        """Read a file written by `save` or ``wcluster``, plain or compressed.

        Raises DataError, for a file that is missing or has another format; it names the line, unless paths of two lines
        do not fit.
        """
        lines = list(numbered_lines(reading.path_of(file, DataError)))
        place = os.fspath(file)

        def read_rows() -> Iterator[tuple[str, str, int]]:
            nonlocal place
            for number, line in lines:
                columns = line.rstrip("\r").split("\t")
                if columns == [""]:
                    continue
                place = f"{os.fspath(file)}, line {number}"
                count = reading.whole_number(columns[2]) if len(columns) == 3 else None
                if count is None:
                    raise DataError(
                        f"expected bits, word and count with tabs between, not {line!r:.80}"
                    )
                yield columns[1], columns[0], count
            place = os.fspath(file)  # the tree has faults of several lines

        try:
            return cls(read_rows())
        except DataError as error:
            raise DataError(f"{place}: {error}") from error


def brown_clusters(text: Text, n_classes: int = 256, *, min_count: int = 1) -> BrownClusters:
    """Find Brown clusters of the words of a text; the same text always gives the same clusters.

    The tree has ``n_classes`` leaves; ``</s>`` has none, but is a neighbor like other words. Words rarer than
    ``min_count`` get no class; as neighbors they count as one word. Raises ConfigurationError unless
    ``n_classes`` is from 1 to the number of words that get one, or for a ``min_count`` below 1, and CorpusError for a
    text without tokens.
    """
    # imports numba, which reading a file does not need
    from tacenda_lm.hidden_markov.agglomeration import agglomerate

    for name, number in (("n_classes", n_classes), ("min_count", min_count)):
        check_whole(name, number)
    corpus = as_corpus(text)
    if not corpus.n_tokens:
        raise CorpusError("the text has no tokens to cluster: give another one")
    counts, boundary = corpus.type_counts, corpus.vocabulary.boundary_id
    kept = (counts >= min_count) & (np.arange(len(counts)) != boundary)
    if n_classes > int(kept.sum()):
        raise ConfigurationError(
            f"n_classes is {n_classes}, and {kept.sum()} words occur at least {min_count} times: give fewer classes, "
            "or a lower min_count"
        )
    ids, _ = encode_corpus(corpus)
    clusters = agglomerate(ids, len(counts), n_classes, boundary=boundary, min_count=min_count)
    paths, words = clusters.paths(), corpus.vocabulary.words
    return BrownClusters(
        (words[word], paths[group], int(counts[word]))
        for word, group in zip(clusters.order.tolist(), clusters.classes().tolist(), strict=True)
    )
