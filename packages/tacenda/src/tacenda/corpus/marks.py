"""The marks ``<s>`` and ``</s>`` that are written in a text, though a language model puts them around every sentence.

It would learn that ``<s>`` follows ``<s>``, and its perplexity would count words that need not be predicted. KenLM's
lmplz refuses such a text.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal, TypeVar, cast, get_args

from tacenda.errors import CorpusError
from tacenda.vocabulary import BOUNDARY

#: The mark of the beginning of a sentence.
START: Final = "<s>"
#: What to do with a mark that is written in a text: raise an error, read it as a space, or as an ordinary word.
Marks = Literal["refuse", "skip", "keep"]
#: A quick test for a mark, which most lines fail.
PART_OF_MARKS: Final = "s>"

Tokens = TypeVar("Tokens", bound=Sequence[str])
_SKIP: Final = 'pass marks="skip"'
_MARK: Final = re.compile(r"(?<!\S)</?s>(?!\S)")


def check_marks(marks: str) -> Marks:
    """Return a value of ``marks``. Raises CorpusError if it is not "refuse", "skip" or "keep"."""
    if marks not in get_args(Marks):
        raise CorpusError(
            f'marks is {marks!r}; use "refuse" (an error), "skip" (as if they were spaces) or "keep" (as words)'
        )
    return cast("Marks", marks)


def line_without_marks(line: str, marks: Marks, place: str, skippable: bool = True) -> str:
    """Return a line, which is at a place of a text, as ``marks`` says. Raises CorpusError."""
    if marks == "keep" or PART_OF_MARKS not in line or not (found := _MARK.search(line)):
        return line
    if marks == "refuse":
        raise refusal(found[0], place, _SKIP if skippable else "")
    return _MARK.sub(" ", line)


def sentence_without_marks(
    tokens: Tokens, marks: Marks, number: int, *, skippable: bool = True
) -> Tokens | list[str]:
    """Return the tokens of a sentence, the ``number``-th of its text, as ``marks`` says. Raises CorpusError."""
    if marks == "keep" or (START not in tokens and BOUNDARY not in tokens):
        return tokens
    if marks == "refuse":
        mark = next(token for token in tokens if token in (START, BOUNDARY))
        raise refusal(mark, f"sentence {number}", _SKIP if skippable else "")
    return [token for token in tokens if token not in (START, BOUNDARY)]


def refusal(mark: str, place: str, skip: str) -> CorpusError:
    """Return the error for a mark at a place of a text; ``skip`` is how marks are skipped, "" if they cannot be."""
    advice = f", or {skip}, which reads marks as spaces" if skip else ""
    return CorpusError(
        f"{place}: {mark} is written in the text, and a language model marks the sentences itself: take it out{advice}"
    )
