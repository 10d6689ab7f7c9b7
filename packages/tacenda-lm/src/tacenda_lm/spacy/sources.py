"""Where the language model of a component comes from: an artefact, a fitted object, or raw text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import chain
from typing import Any, NamedTuple

from spacy.pipeline import Sentencizer

from tacenda import plugins
from tacenda.corpus import Corpus
from tacenda.corpus.lines import text_blocks
from tacenda.errors import ConfigurationError
from tacenda.spacy import sources
from tacenda.tokenizers import get_tokenizer
from tacenda_lm.contract import LanguageModelContract
from tacenda_lm.spacy.normalizing import Normalizing

__all__ = ["RawText", "fit", "load"]

SPLITS = ("lines", "sentences")


def load(source: Any) -> Any:
    """The model in a folder or in bytes, or ``source`` itself if it is a fitted language model.

    Raises ConfigurationError if it is something else, and what `tacenda.artifact.read` raises.
    """
    found = sources.load(source, "language_models", "a language model", "score_corpus")
    if not isinstance(found, LanguageModelContract):
        raise ConfigurationError(
            f"{type(found).__name__} is no language model: one inherits tacenda_lm.LanguageModel"
        )
    return found


class RawText(NamedTuple):
    """How raw text becomes the tokens a model is fitted on.

    Attributes
    ----------
    nlp
        The pipeline; None if it is gone.
    tokenizer
        ``"spacy"``, the pipeline's own, or what ``Corpus.from_text`` takes.
    split
        ``"lines"``, a line is a sentence; ``"sentences"``, lines are split at punctuation.
    normalizing
        What is done to a token.
    """

    nlp: Any
    tokenizer: Any
    split: str
    normalizing: Normalizing

    def corpus(self, text: Any, settings: dict[str, Any]) -> tuple[Corpus, list[str] | None]:
        """The text (a file, a list of files, an iterable of lines, a corpus), and its files' names.

        Raises ConfigurationError for an unknown split, or one that needs another tokenizer.
        """
        if self.split not in SPLITS:
            raise ConfigurationError(f"split must be 'lines' or 'sentences', not {self.split!r}")
        if self.split == "lines" or isinstance(text, Corpus):
            return sources.as_corpus(text, self._tokenize(), settings)
        if self.tokenizer != "spacy" or self.nlp is None:
            raise ConfigurationError(
                "split = 'sentences' works with tokenizer = 'spacy' alone: set that, or give a text with a "
                "sentence a line"
            )
        given, names = sources.as_text(text)
        lines = given if names is None else chain.from_iterable(text_blocks(given))
        return Corpus.from_sentences(self._sentences(lines), **settings), names

    def _tokenize(self) -> Callable[[str], list[str]] | str:
        found = sources.resolve_tokenizer(self.tokenizer, self.nlp)
        if self.normalizing == Normalizing():
            return found  # type: ignore[no-any-return]
        tokenize, normalize = get_tokenizer(found), self.normalizing
        return lambda line: list(map(normalize, tokenize(line)))

    def _sentences(self, lines: Any) -> Iterator[list[str]]:
        sentencizer = Sentencizer()
        for line in lines:
            for sentence in sentencizer(self.nlp.tokenizer(line.strip())).sents:
                yield [self.normalizing(token.text) for token in sentence if not token.is_space]

    @property
    def facts(self) -> dict[str, Any]:
        """What an artefact says of it."""
        found = sources.resolve_tokenizer(self.tokenizer, self.nlp)
        return {
            "tokenizer": getattr(found, "name", found if isinstance(found, str) else None),
            "split": self.split,
            "token_normalization": asdict(self.normalizing),
        }


def fit(
    model: str,
    distribution: str | None,
    settings: dict[str, Any],
    raw: RawText,
    corpus: Any,
    valid: Any,
    vocabulary: dict[str, Any],
) -> Any:
    """A model of the registry, fitted on raw text.

    Parameters
    ----------
    model
        Its name.
    distribution
        Whose, if two have one of that name.
    settings
        Its settings.
    raw
        How the text becomes tokens.
    corpus
        What it is fitted on.
    valid
        Held-out text in the same forms, or None.
    vocabulary
        The arguments of ``Corpus.from_text`` about the vocabulary.
    """
    unfitted = plugins.make("language_models", model, settings, distribution=distribution)
    text, names = raw.corpus(corpus, vocabulary)
    held_out = None if valid is None else raw.corpus(valid, {"vocabulary": text.vocabulary})[0]
    fitted = unfitted.fit(text, held_out)
    facts = {"text": names, **({} if isinstance(corpus, Corpus) else raw.facts)}
    known = {name: fact for name, fact in facts.items() if fact is not None}
    fitted.fitted_on = {**(getattr(fitted, "fitted_on", None) or {}), **known}
    return fitted
