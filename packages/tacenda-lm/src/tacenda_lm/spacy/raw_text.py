"""From text to the words of a model: `Normalizing` says how a token is spelled, `RawText` reads what is fitted on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, NamedTuple

from spacy.pipeline import Sentencizer

from tacenda.corpus import Corpus
from tacenda.corpus.lines import text_blocks
from tacenda.errors import ConfigurationError
from tacenda.spacy.sources import as_corpus, as_text, resolve_tokenizer
from tacenda.tokenizers import get_tokenizer

__all__ = ["Normalizing", "RawText"]

_NUMBER = re.compile(r"[+-]?\d+(?:[.,:/-]\d+)*")


@dataclass(frozen=True)
class Normalizing:
    """Changes to a token before it is looked up; by default none. Raises ConfigurationError for an impossible word.

    ``number_word`` replaces a token that is a number as a whole (``12``, ``3.5``, ``1,000``), such as ``"N"`` for a
    model of the Penn Treebank; None leaves numbers as they are.
    """

    lowercase: bool = False
    number_word: str | None = None

    def __post_init__(self) -> None:
        """Refuse a number word that is not one word."""
        if self.number_word is not None and self.number_word.split() != [self.number_word]:
            raise ConfigurationError(
                f"number_word must be one word, such as 'N', or null, not {self.number_word!r}"
            )

    def __call__(self, token: str) -> str:
        """Return the token as the model has it."""
        if self.number_word is not None and _NUMBER.fullmatch(token):
            return self.number_word
        return token.lower() if self.lowercase else token


class RawText(NamedTuple):
    """How raw text becomes tokens."""

    nlp: Any  # the pipeline; None if it no longer exists
    tokenizer: Any  # "spacy", the pipeline's own, or what `Corpus.from_text` takes
    split: str  # "lines": a line is a sentence; "sentences": lines are split at punctuation
    normalizing: Normalizing

    def fit(self, model: Any, text: Any, valid: Any, vocabulary: dict[str, Any]) -> Any:
        """Fit a model to a text, and note in ``fitted_on`` how the text became tokens.

        ``text`` and ``valid`` (or None) are files, lines, or a corpus; ``vocabulary`` holds arguments of
        ``Corpus.from_text``. Raises ConfigurationError for a split that is unknown or needs another tokenizer, and
        CorpusError for a text that cannot be read.
        """
        corpus, names = self._corpus(text, vocabulary)
        held_out = None
        if valid is not None:
            held_out, _ = self._corpus(valid, {"vocabulary": corpus.vocabulary})
        fitted = model.fit(corpus, held_out)
        facts: dict[str, Any] = {"text": names}
        if not isinstance(text, Corpus):
            found = resolve_tokenizer(self.tokenizer, self.nlp)
            facts["tokenizer"] = getattr(found, "name", found if isinstance(found, str) else None)
            facts["split"] = self.split
            facts["token_normalization"] = asdict(self.normalizing)
        known = {name: fact for name, fact in facts.items() if fact is not None}
        fitted.fitted_on = {**(getattr(fitted, "fitted_on", None) or {}), **known}
        return fitted

    def _corpus(self, text: Any, settings: dict[str, Any]) -> tuple[Corpus, list[str] | None]:
        """The text as a corpus, and the names of its files if it came from files."""
        if self.split not in ("lines", "sentences"):
            raise ConfigurationError(f"split must be 'lines' or 'sentences', not {self.split!r}")
        if self.split == "lines" or isinstance(text, Corpus):
            return as_corpus(text, self._tokenize(), settings)
        if self.tokenizer != "spacy" or self.nlp is None:
            raise ConfigurationError(
                "split = 'sentences' needs tokenizer = 'spacy': set that, or give a text with one "
                "sentence per line"
            )
        given, names = as_text(text)
        lines = given if names is None else chain.from_iterable(text_blocks(given))
        return Corpus.from_sentences(self._sentences(lines), **settings), names

    def _tokenize(self) -> Callable[[str], list[str]] | str:
        """The tokenizer, with every token spelled as the model has it."""
        found = resolve_tokenizer(self.tokenizer, self.nlp)
        if self.normalizing == Normalizing():
            return found  # type: ignore[no-any-return]
        tokenize, normalize = get_tokenizer(found), self.normalizing
        return lambda line: list(map(normalize, tokenize(line)))

    def _sentences(self, lines: Any) -> Iterator[list[str]]:
        """The sentences of lines that are paragraphs."""
        sentencizer = Sentencizer()
        for line in lines:
            for sentence in sentencizer(self.nlp.tokenizer(line.strip())).sents:
                yield [self.normalizing(token.text) for token in sentence if not token.is_space]
