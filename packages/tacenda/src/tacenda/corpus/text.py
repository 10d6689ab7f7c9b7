"""The forms of text that all models take: a corpus, files, a string, lines, or token lists.

A ``pathlib.Path`` is a file and a ``str`` is text.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeAlias, cast

from tacenda.corpus.corpus import Corpus
from tacenda.corpus.lines import (
    Lines,
    Marks,
    check_marks,
    sentence_without_marks,
    text_blocks,
    text_files,
)
from tacenda.errors import CorpusError
from tacenda.tokenizers import Tokenizer, get_tokenizer
from tacenda.vocabulary import Vocabulary

#: A sentence: its tokens, or a string that is split at whitespace.
Sentence: TypeAlias = str | Sequence[str]
#: A corpus, a file or files or a string (one sentence per line), or sentences.
Text: TypeAlias = Corpus | str | os.PathLike[str] | Iterable[os.PathLike[str]] | Iterable[Sentence]


def tokens_of(sentence: Sentence, tokenizer: str | Tokenizer = "whitespace") -> list[str]:
    """Return the tokens of a sentence: a list of tokens as it is, a string as ``tokenizer`` splits it.

    Raises CorpusError if it is neither a string nor a list of strings.
    """
    if isinstance(sentence, str):
        return get_tokenizer(tokenizer)(sentence)
    try:
        tokens = list(sentence)
    except TypeError:
        tokens = [cast("str", sentence)]
    for token in tokens:
        if not isinstance(token, str):
            raise CorpusError(
                f"a sentence holds {token!r:.40}, a {type(token).__name__}; "
                "a sentence is a string or a list of strings"
            )
    return tokens


def as_corpus(
    text: Text,
    vocabulary: Vocabulary | None = None,
    tokenizer: str | Tokenizer = "whitespace",
    marks: Marks = "keep",
) -> Corpus:
    """Return a text as a corpus, the form in which models are fitted.

    Parameters
    ----------
    text
        A ``Path`` (a file with one sentence per line, plain or compressed) or a list of paths; a ``str``
        (text, one sentence per line); an iterable of sentences, each a list of tokens or a string; or a
        `Corpus`, which is returned as it is.
    vocabulary
        The vocabulary to use, for example for a held-out text; by default one is built from the text.
    tokenizer
        Splits lines and strings; see `tacenda.tokenizers`. Token lists stay as they are.
    marks
        What is done with ``<s>`` and ``</s>`` that are written in the text; see `tacenda.corpus.lines`. In a `Corpus`
        they can be refused or kept, but not skipped.

    Raises
    ------
    CorpusError
        The text cannot be read, has no tokens, or is a corpus with another vocabulary; a string names a file, which
        must be given as a ``Path``; or there is a mark that is refused.
    """
    check_marks(marks)
    if isinstance(text, Corpus):
        if vocabulary is not None:
            vocabulary.require_same(text.vocabulary, "the corpus")
        if marks != "keep":
            text.refuse_marks()
        return text
    if not isinstance(text, str | os.PathLike):
        text_files(text)  # which raises for what is no text
        sentences = iter(cast("Iterable[Sentence]", text))
        first = next(sentences, None)
        if not isinstance(first, str | os.PathLike):
            rest = [] if first is None else chain([first], sentences)
            return Corpus.from_sentences(
                (tokens_of(each, tokenizer) for each in rest), vocabulary=vocabulary, marks=marks
            )
        if isinstance(text, Iterator):
            text = cast("Text", chain([first], sentences))
        if isinstance(first, os.PathLike):
            text = list(cast("Iterable[os.PathLike[str]]", text))
    return Corpus.from_text(
        cast("Lines", text), tokenizer=tokenizer, vocabulary=vocabulary, marks=marks
    )


def sentences_of(
    text: str | os.PathLike[str] | Iterable[os.PathLike[str]] | Iterable[Sentence],
    tokenizer: str | Tokenizer = "whitespace",
    encoding: str = "utf-8",
    errors: str = "strict",
    marks: Marks = "keep",
    text_field: str | None = None,
) -> Iterator[list[str]]:
    """Yield the token lists of a text in any form but a `Corpus`, empty ones included.

    The forms of ``text``, ``marks`` and the errors are the same as in `as_corpus`; ``encoding`` and ``errors`` are of
    files, and ``text_field`` names a field of JSON objects, as in `Corpus.from_text`.
    """
    split = get_tokenizer(tokenizer)
    check_marks(marks)
    if isinstance(text, str) or text_files(text) is not None:
        for lines in text_blocks(cast("Lines", text), encoding, errors, marks, text_field):
            yield from map(split, lines)
        return
    for number, sentence in enumerate(cast("Iterable[Sentence]", text), 1):
        yield sentence_without_marks(tokens_of(sentence, split), marks, number)
