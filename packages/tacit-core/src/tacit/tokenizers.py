"""Tokenizers by name: from one line of text to a list of tokens."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from tacit.errors import CorpusError

Tokenizer = Callable[[str], list[str]]

_WORDS: Final = re.compile(r"\w+|[^\w\s]")


def get_tokenizer(tokenizer: str | Tokenizer) -> Tokenizer:
    """The tokenizer of that name, or the callable itself.

    ``"whitespace"``: ``str.split``. ``"words"``: one regular expression close to UD English.
    ``"spacy:LANG"``: the rules of ``spacy.blank(LANG)``, whitespace tokens dropped. Any callable from a line
    to a list of tokens passes through.

    Raises CorpusError for an unknown name or where spaCy is missing.
    """
    if callable(tokenizer):
        return tokenizer
    if tokenizer == "whitespace":
        return str.split
    if tokenizer == "words":
        return split_words
    language, found, code = str(tokenizer).partition(":")
    if language == "spacy" and found and code:
        return _spacy_tokenizer(code)
    raise CorpusError(
        f'there is no tokenizer {tokenizer!r}; use "whitespace", "words", "spacy:en" or any callable '
        "from a line to a list of tokens"
    )


def split_words(line: str) -> list[str]:
    """Tokens of a line of English text, close to the tokenization of UD English EWT."""
    return _WORDS.findall(line)


@lru_cache(maxsize=8)
def _spacy_tokenizer(language: str) -> Tokenizer:
    try:
        import spacy
    except ImportError as error:
        raise CorpusError(
            f'the tokenizer "spacy:{language}" needs spaCy; install it with pip install "tacit-core[spacy]"'
        ) from error
    try:
        tokenizer: Any = spacy.blank(language).tokenizer
    except ImportError as error:
        raise CorpusError(
            f"spaCy cannot make a tokenizer for the language {language!r}: {error}"
        ) from error

    def tokenize(line: str) -> list[str]:
        return [token.text for token in tokenizer(line) if not token.is_space]

    return tokenize
