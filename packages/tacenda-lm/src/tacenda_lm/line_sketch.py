"""`LineSketch`: which lines a model was fitted to, in some ten bits each, for a note where the same lines are scored.

A model gives a line that it was fitted to far fewer bits than a new one, so results on such lines say nothing about
new text. The sketch is a Bloom filter (Bloom, 1970): every line sets `_HASHES` bits of it, and a line whose
bits are all set was probably one of them. About 1 new line in 100 passes for an old one, so one or two mean nothing:
`Found` compares how many pass with how many would by chance.

Lines are compared by the ids of their words. Only those with at least `SHORTEST` known words count, since shorter ones
("he said .") recur in any text. Of a text with more than `_MOST` such lines only a share is in the sketch, chosen by
hash. The lines cannot be read from the bits: one can only ask whether a given line passes, and so do 1 in 100 others.
"""

from __future__ import annotations

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
_BITS = 10  # a line; with 7 hashes, 0.8% of other lines pass
_HASHES = 7
_MOST = 1 << 20  # lines in a sketch, which has 1.3 MB then
#: From this share of lines on, the text is said to be one the model was fitted to. Held-out text shares some lines with
#: the training text: 1.6% of the validation and 0.6% of the test text of Penn Treebank, 0.7% and 0.9% of WikiText-2.
_MANY = 0.05
_CHANCE = 1e-3  # in which part of new texts so many lines may pass
_U64 = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Found:
    """How many lines of a text a sketch knows. Counts of two parts of a text can be added."""

    n_lines: int  # that could be compared
    n_seen: int  # that pass for lines of the text that the model was fitted to
    false_positives: float  # the share of other lines that pass too

    def __add__(self, other: Found) -> Found:
        return Found(
            self.n_lines + other.n_lines,
            self.n_seen + other.n_seen,
            max(self.false_positives, other.false_positives),
        )

    @property
    def is_fitted_text(self) -> bool:
        """Whether too many lines pass for this to be new text."""
        if self.n_seen < (_MANY + self.false_positives) * self.n_lines or not self.n_seen:
            return False
        from scipy.special import bdtrc  # its import takes longer than that of numpy

        by_chance = bdtrc(self.n_seen - 1, self.n_lines, self.false_positives)
        return bool(by_chance < _CHANCE)

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
    one_in: int  # lines are in it whose hash is a multiple of this

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        """Return the sketch of the lines of a corpus."""
        unknown = corpus.vocabulary.oov_ids
        one_in, kept = 1, np.empty(0, np.uint64)
        for block in corpus.blocks():
            found = _hash(*block, unknown)
            kept = np.concatenate([kept, found[found % np.uint64(one_in) == 0]])
            while len(kept) > _MOST:
                one_in *= 2
                kept = kept[kept % np.uint64(one_in) == 0]
        kept = np.unique(kept)
        filled = np.zeros(8 * max(1, _BITS * len(kept) // 8), bool)
        for places in _find_bits(kept, len(filled)):
            filled[places] = True
        return cls(bits=np.packbits(filled, bitorder="little"), one_in=one_in)

    def find(self, ids: Integers, offsets: Integers, unknown: Integers) -> Found:
        """Look up lines, given as for ``score_corpus``; ``unknown`` are the ids that stand for unknown words."""
        hashes = _hash(ids, np.unique(offsets), unknown)
        hashes = hashes[hashes % np.uint64(self.one_in) == 0]
        seen = np.ones(len(hashes), bool)
        for places in _find_bits(hashes, 8 * len(self.bits)):
            seen &= (self.bits[places >> np.uint64(3)] >> (places & np.uint64(7)) & 1).astype(bool)
        return Found(len(hashes), int(seen.sum()), self.false_positives)

    @property
    def false_positives(self) -> float:
        """The share of other lines that pass: (bits set / bits) ** hashes."""
        n_set = int(np.bitwise_count(self.bits).sum(dtype=np.int64))
        return float((n_set / (8 * len(self.bits))) ** _HASHES)

    def describe(self) -> dict[str, Any]:
        """Return which lines are in it, and the share of others that pass."""
        passing = self.false_positives
        return {"shortest": SHORTEST, "one_in": self.one_in, "false_positives": passing}

    @classmethod
    def read_fact(cls, about: Any) -> dict[str, Any]:
        """Return the share of lines that are in it. Raises ArtifactError where there is none."""
        one_in = about.get("one_in") if isinstance(about, dict) else None
        if not isinstance(one_in, int) or not 1 <= one_in < 1 << 63:
            raise ArtifactError(
                f"fitted_on[{cls.part_name!r}] is {about!r:.80}, which describes no sketch of lines; the model is "
                "damaged"
            )
        return {"one_in": one_in}


def _hash(ids: Integers, offsets: Integers, unknown: Integers) -> _U64:
    """Return a hash of each line with enough known words, uint64 (lines,); no line may be empty."""
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


def _find_bits(hashes: _U64, n_bits: int) -> Any:
    """Yield the places of the lines' bits, (lines,) each: two hashes make them all (Kirsch and Mitzenmacher, 2006)."""
    step = _mix(hashes) | np.uint64(1)
    for i in range(_HASHES):
        yield (hashes + np.uint64(i) * step) % np.uint64(n_bits)


def find_lines(model: Any, ids: Integers, offsets: Integers) -> Found | None:
    """Look lines up in the sketches of a model and of those it is made of; None if there is none.

    Of several it is the sketch that knows most of them. ``ids`` and ``offsets`` are as for ``score_corpus``.
    """
    own = getattr(model, "line_sketch", None)
    found = None if own is None else own.find(ids, offsets, model.vocabulary.oov_ids)
    for part in model.nested().values() if hasattr(model, "nested") else ():
        other = find_lines(part, ids, offsets)
        if found is None or (other is not None and other.n_seen > found.n_seen):
            found = other
    return found
