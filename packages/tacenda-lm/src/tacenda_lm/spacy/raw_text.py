"""`RawText`: raw text as the tokens on which the component's model is fitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import chain
from typing import Any, NamedTuple

from spacy.pipeline import Sentencizer

from tacenda.corpus import Corpus
from tacenda.corpus.lines import text_blocks
from tacenda.errors import ConfigurationError
from tacenda.spacy.sources import as_corpus, as_text, resolve_tokenizer
from tacenda.tokenizers import get_tokenizer
from tacenda_lm.spacy.normalizing import Normalizing

__all__ = ["RawText"]


class RawText(NamedTuple):
    """How raw text becomes tokens.

    Attributes
    ----------
    nlp
        The pipeline; None if it no longer exists.
    tokenizer
        ``"spacy"``, the pipeline's own, or what ``Corpus.from_text`` takes.
    split
        ``"lines"``: a line is a sentence; ``"sentences"``: lines are split at punctuation.
    normalizing
        How tokens are spelled for the model.
    """

    nlp: Any
    tokenizer: Any
    split: str
    normalizing: Normalizing

    def fit(self, model: Any, text: Any, valid: Any, vocabulary: dict[str, Any]) -> Any:
        """Fit a model, and note in ``fitted_on`` how the text became tokens.

        Parameters
        ----------
        model
            The unfitted model.
        text, valid
            The text and held-out text or None: files, lines, or a corpus.
        vocabulary
            The arguments of ``Corpus.from_text`` about the vocabulary.

        Raises
        ------
        ConfigurationError
            The split is unknown, or needs another tokenizer.
        CorpusError
            A text cannot be read.
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
