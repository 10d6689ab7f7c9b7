"""The forms of text that all models take: a corpus, files, a string, lines, or token lists.

A ``pathlib.Path`` is a file and a ``str`` is text.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from tacenda.corpus.corpus import Corpus
from tacenda.corpus.lines import line_without_end, open_text, text_blocks
from tacenda.corpus.marks import Marks, check_marks, line_without_marks, sentence_without_marks
from tacenda.corpus.word_ids import no_tokens_error
from tacenda.errors import CorpusError
from tacenda.tokenizers import Tokenizer, get_tokenizer
from tacenda.vocabulary import Vocabulary, no_vocabulary

#: A sentence: its tokens, or a string that is split at whitespace.
Sentence: TypeAlias = str | Sequence[str]
#: A file or files, a string (one sentence per line), or sentences: all strings or all token lists.
RawText: TypeAlias = str | os.PathLike[str] | Iterable[os.PathLike[str]] | Iterable[Sentence]
#: A text in any form that all models take.
Text: TypeAlias = Corpus | RawText


def tokens_of(sentence: Sentence, tokenizer: str | Tokenizer = "whitespace") -> list[str]:
    """Return the tokens of a sentence: a list of tokens as it is, a string as ``tokenizer`` splits it.

    Raises CorpusError if it is neither a string nor a list of strings.
    """
    if isinstance(sentence, str):
        return get_tokenizer(tokenizer)(sentence)
    tokens = list(sentence) if isinstance(sentence, Iterable) else [sentence]
    for token in tokens:
        if not isinstance(token, str):
            raise CorpusError(
                f"a sentence holds {token!r:.40}, a {type(token).__name__}; a sentence is a string or a list of strings"
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
        A ``Path`` (a file with one sentence per line, plain or compressed) or several; a ``str`` (text, one sentence
        per line); an iterable of lines, or of sentences that are lists of tokens; or a `Corpus`, which is returned as
        it is.
    vocabulary
        The vocabulary to use, for example for a held-out text; by default one is built from the text.
    tokenizer
        Splits lines and strings; see `tacenda.tokenizers`. Token lists stay as they are.
    marks
        What is done with ``<s>`` and ``</s>`` that are written in the text; see `tacenda.corpus.marks`. In a `Corpus`
        they can be refused or kept, but not skipped.

    Raises
    ------
    CorpusError
        The text cannot be read, has no tokens, mixes lines and token lists, or is a corpus with another vocabulary; a
        string names a file, which must be given as a ``Path``; or there is a mark that is refused.
    """
    check_marks(marks)
    if isinstance(text, Corpus):
        if not text.n_tokens:
            raise no_tokens_error("the corpus")
        if vocabulary is not None:
            if not isinstance(vocabulary, Vocabulary):
                raise no_vocabulary(vocabulary)
            vocabulary.require_same(text.vocabulary, "the corpus")
        if marks != "keep":
            text.refuse_marks()
        return text
    source, is_tokenized = open_text(text)
    if is_tokenized:
        return Corpus.from_sentences(source, vocabulary=vocabulary, marks=marks)
    return Corpus.from_text(source, tokenizer=tokenizer, vocabulary=vocabulary, marks=marks)


def sentences_of(
    text: RawText,
    tokenizer: str | Tokenizer = "whitespace",
    encoding: str = "utf-8",
    errors: str = "strict",
    marks: Marks = "keep",
    text_field: str | None = None,
) -> Iterator[list[str]]:
    """Yield the token lists of a text in any form but a `Corpus`, empty ones included.

    The forms of ``text``, ``marks`` and the errors are the same as in `as_corpus`, but lines and token lists may be
    mixed; ``encoding`` and ``errors`` are of files, and ``text_field`` names a field of JSON objects, as in
    `Corpus.from_text`.
    """
    split = get_tokenizer(tokenizer)
    check_marks(marks)
    source, _ = open_text(text)
    if text_field is not None or not isinstance(source, Iterator):
        for block in text_blocks(source, encoding, errors, marks, text_field):
            yield from map(split, block)
        return
    # one by one: a line of standard input is scored before the next one is there
    for number, sentence in enumerate(source, 1):
        if isinstance(sentence, str):
            line = line_without_end(sentence, number)
            yield split(line_without_marks(line, marks, f"sentence {number}"))
        else:
            yield sentence_without_marks(tokens_of(sentence), marks, number)
