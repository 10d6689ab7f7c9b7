"""Tokenizers by name: from one line of text to a list of tokens."""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tacenda import english_words
from tacenda.errors import CorpusError

Tokenizer = Callable[[str], list[str]]


def get_tokenizer(tokenizer: str | Tokenizer) -> Tokenizer:
    """The tokenizer of that name, or the callable itself.

    ``"whitespace"``: ``str.split``, which splits at any Unicode whitespace.
    ``"words"``: one regular expression close to UD English, see ``tacenda.english_words``.
    ``"spacy:LANG"``: the rules of ``spacy.blank(LANG)``, whitespace tokens dropped.
    Any callable from a line to a list of tokens passes through.

    Raises CorpusError for an unknown name, an unknown language, or where spaCy is missing.
    """
    if callable(tokenizer):
        return tokenizer
    if tokenizer == "whitespace":
        return str.split
    if tokenizer == "words":
        return english_words.split_words
    family, _, language = str(tokenizer).partition(":")
    if family == "spacy" and language:
        return _spacy_tokenizer(language)
    raise CorpusError(
        f'there is no tokenizer {tokenizer!r}; use "whitespace", "words", "spacy:en" '
        "or any callable from a line to a list of tokens"
    )


def tokenizer_version(tokenizer: str | Tokenizer) -> str | None:
    """A string that changes when the tokens could; None for a callable, which has no version."""
    if callable(tokenizer):
        return None
    get_tokenizer(tokenizer)
    if tokenizer == "words":
        return f"words {hashlib.sha256(english_words.VERSION.encode()).hexdigest()[:16]}"
    if tokenizer.startswith("spacy:"):
        import spacy

        return f"{tokenizer} {spacy.__version__}"
    return tokenizer


@lru_cache(maxsize=8)
def _spacy_tokenizer(language: str) -> Tokenizer:
    try:
        import spacy
    except ImportError as error:
        raise CorpusError(
            f'the tokenizer "spacy:{language}" needs spaCy; '
            'install it with pip install "tacenda[spacy]"'
        ) from error
    try:
        tokenizer: Any = spacy.blank(language).tokenizer
    except ImportError as error:
        raise CorpusError(
            f'spaCy has no language "{language}"; name one of its codes, such as "spacy:en"'
        ) from error

    def tokenize(line: str) -> list[str]:
        return [token.text for token in tokenizer(line) if not token.is_space]

    return tokenize
