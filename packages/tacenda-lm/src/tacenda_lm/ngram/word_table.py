"""`WordTable`: a vocabulary as compiled code looks words up in it, for text that comes as strings."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tacenda.errors import ArtifactError
from tacenda.vocabulary import BOUNDARY, UNKNOWN, Vocabulary
from tacenda_lm.sequences import Ids, Offsets

__all__ = ["WordTable", "word_arrays"]

Arrays = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int32]]


class WordTable:
    """A vocabulary for compiled code; the arrays are made when they are first needed.

    Attributes
    ----------
    vocabulary
        Whose words these are.
    is_ascii
        Whether text is split at ASCII whitespace alone.
    is_plain
        Whether its words are looked up as they are spelled, and every other word is ``<unk>``.
    """

    def __init__(self, vocabulary: Vocabulary, is_ascii: bool = False) -> None:
        self.vocabulary, self.is_ascii = vocabulary, is_ascii
        self.is_plain = not vocabulary.normalization and vocabulary.oov == "single"

    @cached_property
    def arrays(self) -> Arrays:
        """The arguments by which the functions of ``text_kernels`` know the words."""
        return word_arrays(*self.vocabulary.packed())

    @cached_property
    def special(self) -> tuple[int, int, bool]:
        """What the functions of ``text_kernels`` know beside: the ids of ``</s>`` and ``<unk>``, and ``is_ascii``."""
        return self._mark(BOUNDARY), self._mark(UNKNOWN), self.is_ascii

    def _mark(self, word: str) -> int:
        """The id of a special type, found without unpacking the words. Raises ArtifactError where there is none."""
        from tacenda_lm.ngram import text_kernels

        found = text_kernels.number_of(np.frombuffer(word.encode(), np.uint8), *self.arrays)
        if found < 0:
            raise ArtifactError(f"the vocabulary of the model has no {word}: it is damaged")
        return int(found)

    def encoded(self, lines: object, eos: bool) -> tuple[Ids, Offsets] | None:
        """Return ids (tokens,) and offsets (lines + 1,) of a list of strings, with ``</s>`` after each where ``eos``.

        None for anything else, and where a line holds a line feed or the mark of a beginning or an end.
        """
        if not isinstance(lines, list | tuple) or not all(isinstance(line, str) for line in lines):
            return None
        joined = "\n".join([*lines, ""]).encode("utf-8", "surrogatepass")
        if not lines or joined.count(b"\n") != len(lines):
            return None
        from tacenda_lm.ngram.text_kernels import encode_lines

        text = np.frombuffer(joined, np.uint8)
        ids = np.empty(len(text) // 2 + 2 * len(lines), np.int32)
        offsets = np.empty(len(lines) + 1, np.int64)
        done = encode_lines(*self.arrays, text, *self.special, eos, ids, offsets)
        return (ids[: offsets[-1]], offsets) if done else None

    def __reduce__(self) -> tuple[Any, ...]:
        return WordTable, (self.vocabulary, self.is_ascii)


def word_arrays(text: npt.NDArray[np.uint8], cuts: npt.NDArray[np.int64]) -> Arrays:
    """Return words as ``pack_words`` has them, and a hash table of their numbers."""
    from tacenda_lm.ngram import text_kernels

    # as compiled code knows them, whether they are a model's or were packed here
    text, cuts = text.view(), np.array(cuts)
    text.flags.writeable = False
    slots = np.empty(1 << max(2 * (len(cuts) - 1), 1).bit_length(), np.int32)
    text_kernels.hash_words(text, cuts, slots)
    return text, cuts, slots
