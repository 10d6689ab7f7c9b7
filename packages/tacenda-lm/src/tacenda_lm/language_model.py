"""`LanguageModel`: what every language model inherits; the contract, and all that follows from it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from tacenda.corpus import Corpus
from tacenda.corpus.text import Text, as_corpus
from tacenda.errors import ConfigurationError
from tacenda.fitting.recorder import Resume
from tacenda_lm.contract import FitContext
from tacenda_lm.generation import Generation
from tacenda_lm.kenlm_interface import KenlmInterface
from tacenda_lm.perplexity import Context
from tacenda_lm.rescoring import Rescoring

__all__ = ["LanguageModel"]


class LanguageModel(KenlmInterface, Generation, Rescoring):
    """Base of all language models; see ``tacenda_lm.contract`` for what a new one implements.

    Logarithms are natural, except in the functions named as in the kenlm module (base 10) and in `surprisal`
    and `entropy` (bits). ``</s>`` is predicted, ``<s>`` never. Words outside the vocabulary are scored as
    ``<unk>``.
    """

    def fit(
        self,
        text: Text,
        valid: Text | None = None,
        *,
        checkpoints: str | os.PathLike[str] | None = None,
        resume: Resume = "auto",
    ) -> Self:
        """Fits the model.

        Parameters
        ----------
        text
            A file (a ``Path``; whitespace tokens, one sentence per line), a string, sentences, or a corpus;
            see `tacenda.corpus.text.as_corpus`. Its vocabulary becomes the model's.
        valid
            Held-out text in the same forms. Its perplexity goes into ``figures``; models that are
            trained in epochs stop by it.
        checkpoints
            A folder of this fit's own, in which its progress is saved; it is made if it is not there. A fit that
            was killed and is started again with the same folder ends in the same model.
        resume
            ``"auto"`` goes on from a checkpoint if there is one, True requires one, False starts afresh.

        Raises
        ------
        ConfigurationError
            the model keeps no checkpoints, or ``resume`` is True without ``checkpoints``.
        FittingError
            a checkpoint cannot be read or written, or is that of another fit.
        CorpusError
            a text cannot be read, has no tokens, or has another vocabulary.
        """
        context = self._fit_context(checkpoints, resume)
        corpus = as_corpus(text)
        if isinstance(valid, Iterator):
            valid = list(
                valid
            )  # read twice: as ids to fit with, and as words to count unknown ones
        held_out = None if valid is None else as_corpus(valid, corpus.vocabulary)
        self.fitted_on = {}
        self.figures = []
        self._fit(corpus, held_out, context)
        self.fitted_on = {**text_facts(corpus), **self.fitted_on}
        if held_out is not None:
            found = valid if _has_words(valid) else held_out
            self.record(found, "validation text", context=self.own_context)
        return self

    def _fit_context(
        self, checkpoints: str | os.PathLike[str] | None, resume: Resume
    ) -> FitContext:
        if checkpoints is None and resume is True:
            raise ConfigurationError(
                "resume=True needs checkpoints=...: give the folder in which the fit was saved"
            )
        if checkpoints is None:
            return FitContext()
        if not self.keeps_checkpoints:
            raise ConfigurationError(
                f"{type(self).__name__} cannot save the progress of its fit: leave out checkpoints"
            )
        return FitContext(Path(checkpoints), resume)

    def record(self, text: Any, name: str, context: Context = "sentence") -> None:
        """Measures the perplexity of a text and adds it to ``figures``, which the artefact carries.

        Parameters
        ----------
        text
            As in `perplexity`.
        name
            What the text is, such as "PTB test".
        context
            As in `perplexity`.
        """
        found = self.perplexity(text, context=context)
        self.figures.append({"measure": "perplexity", "text": name, **found.to_dict()})

    @property
    def card(self) -> dict[str, Any]:
        """The model card, as JSON values: what the model is, what it was fitted on, what was measured."""
        config = self.config_dict()
        return {
            "model": self.name,
            "distribution": self.distribution,
            "settings": config.get(
                "settings", {k: config[k] for k in config.keys() - {"vocabulary"}}
            ),
            "n_types": len(self.vocabulary),
            "vocabulary": self.vocabulary.config_dict(),
            "log_base": "e; 10 in score, full_scores, BaseScore; 2 in surprisal, entropy",
            "end_of_sentence": "</s> is predicted after every sentence; <s> is context only",
            "out_of_vocabulary": "scored as <unk>, and counted; a written <unk> is an ordinary word",
            "fitted_on": self.fitted_on,
            "figures": self.figures,
        }


def text_facts(corpus: Corpus) -> dict[str, Any]:
    """What an artefact says of the text its model was fitted on."""
    return {
        "n_tokens": corpus.n_tokens,
        "n_sentences": corpus.n_sentences,
        "n_types": len(corpus.vocabulary),
        "n_unknown": int(corpus.type_counts[corpus.vocabulary.oov_ids].sum()),
        **corpus.origin,
    }


def _has_words(text: Any) -> bool:
    return not isinstance(text, Corpus)
