"""Marks of a sentence, ``<s>`` and ``</s>``, that somebody wrote into a text.

A language model puts the marks around every sentence itself. Where a text has them too, it would learn that ``<s>``
follows ``<s>``, and its perplexity would count words that nobody has to predict. KenLM's lmplz refuses such a text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, TypeVar, cast, get_args

from tacenda.errors import CorpusError
from tacenda.lookup import BOUNDARY

__all__ = [
    "START",
    "Marks",
    "check_marks",
    "lines_without_marks",
    "refusal",
    "sentence_without_marks",
]

START: Final = "<s>"
"""The mark of the beginning of a sentence."""

Marks = Literal["refuse", "skip", "keep"]
"""What is done with a mark that is written in a text: an error, a space, or nothing."""

Tokens = TypeVar("Tokens", bound=Sequence[str])
_MARK: Final = re.compile(r"(?<!\S)</?s>(?!\S)")  # with nothing but whitespace around it
_HINT: Final = "s>"  # in every mark


def check_marks(marks: str) -> Marks:
    """Return the value itself. Raises CorpusError if it is not "refuse", "skip" or "keep"."""
    if marks not in get_args(Marks):
        raise CorpusError(
            f'marks is {marks!r}; use "refuse" (an error), "skip" (as if they were spaces) or "keep" (as words)'
        )
    return cast("Marks", marks)


def lines_without_marks(
    blocks: Iterable[list[str]], marks: Marks, name: str, *, skippable: bool = True
) -> Iterator[list[str]]:
    """Yield blocks of lines as ``marks`` says; ``name`` is what an error calls the text.

    ``skippable`` says whether who reads the error can ask for "skip".

    Raises CorpusError, which names the line, where a mark is written and refused.
    """
    n_lines = 0
    for block in blocks:
        lines = block
        if marks != "keep" and any(_HINT in line for line in block):
            lines = [
                _line_without_marks(line, marks, f"{name}, line {number}", skippable)
                for number, line in enumerate(block, n_lines + 1)
            ]
        yield lines
        n_lines += len(block)


def sentence_without_marks(
    tokens: Tokens, marks: Marks, number: int, *, skippable: bool = True
) -> Tokens | list[str]:
    """Return the tokens of a sentence, the ``number``-th of its text, as ``marks`` says. Raises CorpusError."""
    if marks == "keep" or (START not in tokens and BOUNDARY not in tokens):
        return tokens
    if marks == "refuse":
        found = next(token for token in tokens if token in (START, BOUNDARY))
        raise refusal(found, f"sentence {number}", skippable)
    return [token for token in tokens if token not in (START, BOUNDARY)]


def _line_without_marks(line: str, marks: Marks, place: str, skippable: bool) -> str:
    """The line as ``marks`` says, "refuse" or "skip"."""
    if marks == "skip":
        return _MARK.sub(" ", line)
    found = _MARK.search(line)
    if found:
        raise refusal(found[0], place, skippable)
    return line


def refusal(mark: str, place: str, skippable: bool = True) -> CorpusError:
    """Return the error for a mark that stands at a place of a text."""
    skip = ', or pass marks="skip", which reads marks as spaces' if skippable else ""
    return CorpusError(
        f"{place}: {mark} is written in the text, and a language model marks the sentences itself: take it out{skip}"
    )
