"""`LineSketch`: a sketch of the lines that a model was fitted to, for a note if the same lines are scored.

A model gives a line that it was fitted to far fewer bits than a new one, so results on such lines say nothing about
new text. The sketch is a Bloom filter (Bloom, 1970) with some ten bits a line: every line sets `_N_HASHES` bits of it,
and a line whose bits are all set was probably one of them. About 1 new line in 100 passes, too, so one or two mean
nothing: `LineMatches` compares the number that passes with the number expected by chance.

Lines are compared by the ids of their words. Only lines with at least `SHORTEST` known words count, because shorter
ones ("he said .") recur in any text. Of a text with more than `_MAX_LINES` such lines, the sketch has only a share,
chosen by hash. The lines cannot be read from the bits, which only tell whether a given line passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacenda.arrays import Array, UInt8
from tacenda.corpus import Corpus
from tacenda.errors import ArtifactError
from tacenda_lm.artifact_parts import Part
from tacenda_lm.sequences import Integers

#: The fewest words of the vocabulary in a line that counts.
SHORTEST = 8
_BITS_PER_LINE = 10  # with 7 hashes, 0.8% of other lines pass
_N_HASHES = 7
_MAX_LINES = 1 << 20  # in a sketch of 1.3 MB
#: The share of lines from which a text counts as one the model was fitted to. Held-out text shares some lines with the
#: training text: 1.6% of the validation and 0.6% of the test text of Penn Treebank, 0.7% and 0.9% of WikiText-2.
_MIN_SHARE = 0.05
_MAX_P_VALUE = 1e-3  # of the number of lines that pass, for new text
_U64 = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class LineMatches:
    """The number of lines of a text that pass a sketch. Counts of two parts of a text can be added."""

    n_lines: int  # with enough words
    n_seen: int  # that pass
    false_positives: float  # the share of new lines that pass, too

    def __add__(self, other: LineMatches) -> LineMatches:
        return LineMatches(
            self.n_lines + other.n_lines,
            self.n_seen + other.n_seen,
            max(self.false_positives, other.false_positives),
        )

    @property
    def is_fitted_text(self) -> bool:
        """Whether more lines pass than would of a new text."""
        if self.n_seen < (_MIN_SHARE + self.false_positives) * self.n_lines or not self.n_seen:
            return False
        from scipy.special import bdtrc  # imported late, because it takes longer than numpy

        by_chance = bdtrc(self.n_seen - 1, self.n_lines, self.false_positives)
        return bool(by_chance < _MAX_P_VALUE)

    @property
    def note(self) -> str | None:
        """A sentence on what results on these lines mean; None if there is nothing to say."""
        if not self.is_fitted_text:
            return None
        return (
            f"{self.n_seen:,} of {self.n_lines:,} sentences of {SHORTEST} words and more are lines of the text that "
            "the model was fitted to, which have far fewer bits than new text: score text that the model has not seen"
        )


class LineSketch(Part):
    """A Bloom filter over lines, given as ids of words."""

    part_name: ClassVar[str] = "line_sketch"

    bits: UInt8[Array, "others+1"]  # never empty
    one_in: int  # the sketch has the lines whose hash is a multiple of this

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        """Return the sketch of the lines of a corpus."""
        unknown = corpus.vocabulary.oov_ids
        one_in, hashes = 1, np.empty(0, np.uint64)
        for block in corpus.blocks():
            new = _hash_lines(*block, unknown)
            hashes = np.concatenate([hashes, new[new % np.uint64(one_in) == 0]])
            if len(hashes) > _MAX_LINES:  # repeated lines must not thin out the others
                hashes = np.unique(hashes)
            while len(hashes) > _MAX_LINES:
                one_in *= 2
                hashes = hashes[hashes % np.uint64(one_in) == 0]
        hashes = np.unique(hashes)
        is_set = np.zeros(8 * max(1, _BITS_PER_LINE * len(hashes) // 8), bool)
        for places in _find_bits(hashes, len(is_set)):
            is_set[places] = True
        return cls(bits=np.packbits(is_set, bitorder="little"), one_in=one_in)

    def find(self, ids: Integers, offsets: Integers, unknown: Integers) -> LineMatches:
        """Look up lines, given as for ``score_corpus``; ``unknown`` are the ids that stand for unknown words."""
        hashes = _hash_lines(ids, np.unique(offsets), unknown)
        hashes = hashes[hashes % np.uint64(self.one_in) == 0]
        seen = np.ones(len(hashes), bool)
        for places in _find_bits(hashes, 8 * len(self.bits)):
            seen &= (self.bits[places >> np.uint64(3)] >> (places & np.uint64(7)) & 1).astype(bool)
        return LineMatches(len(hashes), int(seen.sum()), self.false_positives)

    @property
    def false_positives(self) -> float:
        """The share of new lines that pass: (bits set / bits) ** hashes."""
        n_set = int(np.bitwise_count(self.bits).sum(dtype=np.int64))
        return float((n_set / (8 * len(self.bits))) ** _N_HASHES)

    def describe(self) -> dict[str, Any]:
        """Return which lines the sketch has, and the share of new lines that pass."""
        passing = self.false_positives
        return {"shortest": SHORTEST, "one_in": self.one_in, "false_positives": passing}

    @classmethod
    def read_fact(cls, about: Any) -> dict[str, Any]:
        """Return ``one_in`` from the fact of `describe`. Raises ArtifactError if there is none."""
        one_in = about.get("one_in") if isinstance(about, dict) else None
        if not isinstance(one_in, int) or not 1 <= one_in < 1 << 63:
            raise ArtifactError(
                f"fitted_on[{cls.part_name!r}] is {about!r:.80}, which describes no sketch of lines; the model is "
                "damaged"
            )
        return {"one_in": one_in}


def _hash_lines(ids: Integers, offsets: Integers, unknown: Integers) -> _U64:
    """Return the hash of each line with enough known words, uint64 (lines,); no line may be empty."""
    lengths = np.diff(offsets)
    if not len(lengths):
        return np.empty(0, np.uint64)
    place = np.arange(len(ids)) - np.repeat(offsets[:-1], lengths)
    mixed = _mix(ids.astype(np.uint64) | place.astype(np.uint64) << np.uint64(32))
    n_known = np.add.reduceat(~np.isin(ids, unknown), offsets[:-1], dtype=np.int64)
    return _mix(np.add.reduceat(mixed, offsets[:-1]))[n_known >= SHORTEST]


def _mix(values: _U64) -> _U64:
    """Return hashes of numbers: the finalizer of SplitMix64 (Steele, Lea and Flood, 2014)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return values ^ values >> np.uint64(31)


def _find_bits(hashes: _U64, n_bits: int) -> Iterator[_U64]:
    """Yield the places of one bit of each line (lines,), all from two hashes (Kirsch and Mitzenmacher, 2006)."""
    step = _mix(hashes) | np.uint64(1)
    for i in range(_N_HASHES):
        yield (hashes + np.uint64(i) * step) % np.uint64(n_bits)


def find_lines(model: Any, ids: Integers, offsets: Integers) -> LineMatches | None:
    """Look lines up in the sketches of a model and of its components; None if there are none.

    The result is that of the sketch that most lines pass. ``ids`` and ``offsets`` are as for ``score_corpus``.
    """
    sketch = getattr(model, "line_sketch", None)
    components = model.nested().values() if hasattr(model, "nested") else ()
    results = [find_lines(component, ids, offsets) for component in components]
    if sketch is not None:
        results.insert(0, sketch.find(ids, offsets, model.vocabulary.oov_ids))
    return max((each for each in results if each is not None), key=lambda f: f.n_seen, default=None)
