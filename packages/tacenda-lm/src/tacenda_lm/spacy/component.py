"""The pipeline component behind ``lm_scorer``.

It holds any fitted language model and keeps the scores of its words with every document, where the
extension attributes of ``tacenda_lm.spacy.attributes`` read them; it trains nothing: the model is loaded or
fitted in `LanguageModelScorer.initialize`.
"""

import multiprocessing
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from spacy.tokens import Doc

from tacenda.errors import ConfigurationError, NotFittedError
from tacenda.spacy.component import ModelComponent, PipelineStandIn
from tacenda.spacy.requirements import note_requirement
from tacenda_lm.spacy import sources
from tacenda_lm.spacy.attributes import register
from tacenda_lm.spacy.doc_scores import DocScores
from tacenda_lm.spacy.normalizing import Normalizing
from tacenda_lm.spacy.scoring import DocScorer

__all__ = ["LanguageModelScorer"]


class LanguageModelScorer(ModelComponent):
    """Scores every token of a document by a language model.

    Parameters
    ----------
    nlp
        The pipeline.
    name
        The component's name in it.
    prefix
        What the names of all attributes and figures begin with.
    context
        What a token's probability depends on: all before it in its ``"doc"``, in its
        ``"sentence"``, or in the ``"stream"`` of all documents so far.
    eos
        Predict ``</s>`` after every sentence (after the document where boundaries are unknown).
    rank
        Find ``token._.lm_rank``; costs a whole distribution a token.
    entropy
        Find ``token._.lm_entropy``; likewise.
    state
        Find ``token._.lm_state``, the state behind the token on the most probable path through its
        sentence; for models that have states, not in a ``"stream"``.
    lowercase
        Lower-case tokens for their look-up.
    number_word
        What stands for a token that is a number, such as ``"N"``; None: the number.
    batch_tokens
        Tokens given to the model at a time; a longer document goes alone.
    scorer
        What ``nlp.evaluate`` calls; None for nothing.

    Raises
    ------
    ConfigurationError
        a setting is out of range, or the attributes are somebody else's.
    """

    contexts = ("doc", "sentence", "stream")

    def __init__(
        self,
        nlp: Any,
        name: str = "lm_scorer",
        *,
        prefix: str = "",
        context: str = "doc",
        eos: bool = True,
        rank: bool = False,
        entropy: bool = False,
        state: bool = False,
        lowercase: bool = False,
        number_word: str | None = None,
        batch_tokens: int = 20_000,
        scorer: Callable[..., dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(nlp, name, "tacenda-lm", context, batch_tokens)
        register(prefix, rank=rank, entropy=entropy, state=state)
        self.prefix = prefix
        self.eos = eos
        self.rank = rank
        self.entropy = entropy
        self.state = state
        self.normalizing = Normalizing(lowercase, number_word)
        self.scorer = scorer
        self._doc_scorer: DocScorer | None = None
        self._checked: list[str] | None = None
        self._process = os.getpid()

    @property
    def language_model(self) -> Any:
        """The fitted model; raises NotFittedError if there is none yet."""
        return self._ready().model

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Any]] | None = None,
        *,
        nlp: Any = None,
        artifact: Any = None,
        corpus: Any = None,
        valid: Any = None,
        model: str = "kneser_ney",
        distribution: str | None = None,
        settings: dict[str, Any] | None = None,
        tokenizer: Any = "spacy",
        split: str = "lines",
        max_vocabulary: int | None = 40_000,
        min_count: int = 1,
        oov: str = "single",
    ) -> None:
        """Loads a fitted model, or fits one on raw text; with neither, keeps the model there is.

        Parameters
        ----------
        get_examples
            Not used; raw text teaches these models, not annotations.
        nlp
            The pipeline; spaCy passes it.
        artifact
            Folder of a saved language model (``tacenda lm fit``, ``save``), or a fitted model.
        corpus
            Raw text: a file, a list of files, an iterable of lines, or a ``tacenda.Corpus``.
        valid
            Held-out text in the same forms, for models that stop by it and for the artefact's figures.
        model
            Which model of the registry to fit.
        distribution
            Whose, if two distributions have one of that name.
        settings
            Its settings, such as ``{"order": 3}``.
        tokenizer
            ``"spacy"``, this pipeline's own, or what ``tacenda.Corpus.from_text`` takes.
        split
            ``"lines"``: a line of the text is a sentence; ``"sentences"``: lines are paragraphs, which
            are split at punctuation.
        max_vocabulary
            Types kept, the most frequent ones; None keeps all.
        min_count
            Rarer types become ``<unk>``.
        oov
            As in ``tacenda.Corpus.from_text``.

        Raises
        ------
        ConfigurationError
            Neither or both of artifact and corpus are given, or a setting is wrong.
        TacendaError
            The artefact or the corpus cannot be read.
        """
        if nlp is not None:
            self._nlp = weakref.ref(nlp)
        if artifact is not None and corpus is not None:
            raise ConfigurationError(
                f"{self.name!r} was given both an artifact and a corpus: give one"
            )
        if artifact is not None:
            self._set_model(sources.load(artifact))
        elif corpus is not None:
            raw = sources.RawText(self._nlp(), tokenizer, split, self.normalizing)
            vocabulary = {"max_vocabulary": max_vocabulary, "min_count": min_count, "oov": oov}
            chosen = dict(settings or {})
            self._set_model(
                sources.fit(model, distribution, chosen, raw, corpus, valid, vocabulary)
            )
        elif self._doc_scorer is None:
            raise ConfigurationError(
                f"the component {self.name!r} needs a model: set artifact (a folder that `tacenda lm fit` or "
                "save() wrote) or corpus (a file of raw text to fit one on), as initialize(artifact=...) "
                f"or in [initialize.components.{self.name}]"
            )
        self._look_around()

    def predict(self, docs: Sequence[Doc]) -> list[DocScores]:
        """The scores of documents; all in one call of the model, except in a stream.

        Raises
        ------
        NotFittedError
            There is no model.
        ConfigurationError
            Another component writes the same attributes, or a stream is scored in
            several processes.
        """
        scorer = self._ready()
        nlp = self._nlp()
        if nlp is not None and self._checked != nlp.pipe_names:
            self._look_around()
        if self.context == "stream":
            self._refuse_processes()
        self.warn_without_boundaries(docs)
        return scorer(docs)

    def set_annotations(self, docs: Sequence[Doc], found: Sequence[DocScores]) -> None:
        """Keeps scores, as `predict` gives them, with every document."""
        for doc, scores in zip(docs, found, strict=True):
            scores.keep(doc, self.prefix)

    def restart_stream(self) -> None:
        """Forgets the documents so far, with ``context="stream"``: the next one is the first."""
        self._ready().restart()

    def score(self, examples: Iterable[Any], **kwargs: Any) -> dict[str, Any]:
        """Figures of scored documents, for ``nlp.evaluate``: what the configured scorer returns."""
        if self.scorer is None:
            return {}
        return self.scorer(examples, **{"prefix": self.prefix, **kwargs})

    def _ready(self) -> DocScorer:
        if self._doc_scorer is None:
            raise NotFittedError(
                f"the component {self.name!r} has no model yet: call "
                f"nlp.get_pipe({self.name!r}).initialize(artifact=FOLDER), or set artifact or "
                f"corpus in [initialize.components.{self.name}] and call nlp.initialize()"
            )
        return self._doc_scorer

    def _get_model(self) -> Any:
        return None if self._doc_scorer is None else self._doc_scorer.model

    def _set_model(self, model: Any) -> None:
        self._doc_scorer = None
        if model is not None:
            self._doc_scorer = DocScorer(
                model,
                self.normalizing,
                self.context,
                self.eos,
                rank=self.rank,
                entropy=self.entropy,
                state=self.state,
            )

    def _load_model(self, source: Path | bytes) -> Any:
        return sources.load(source)

    def _look_around(self) -> None:
        """Checks the pipeline around us, once for every composition it has."""
        nlp = self._nlp()
        if nlp is None:
            return
        for name, pipe in nlp.pipeline:
            same = isinstance(pipe, LanguageModelScorer) and pipe.prefix == self.prefix
            if same and pipe is not self:
                raise ConfigurationError(
                    f"{name!r} and {self.name!r} both write the attributes that begin with "
                    f"{self.prefix!r}: give one of them another prefix"
                )
        for distribution in _distributions(self._get_model()):
            note_requirement(nlp, distribution)
        self._checked = nlp.pipe_names

    def _refuse_processes(self) -> None:
        if os.getpid() != self._process and multiprocessing.parent_process() is not None:
            raise ConfigurationError(
                f"{self.name!r} has context = 'stream', which goes from each document to the next and "
                "cannot be shared by processes: use n_process = 1, or context = 'doc'"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles through `to_bytes`, for the processes of ``nlp.pipe(n_process=...)``."""
        settings = {
            "name": self.name,
            "prefix": self.prefix,
            "context": self.context,
            "eos": self.eos,
            "rank": self.rank,
            "entropy": self.entropy,
            "state": self.state,
            "lowercase": self.normalizing.lowercase,
            "number_word": self.normalizing.number_word,
            "batch_tokens": self.batch_tokens,
            "scorer": self.scorer,
        }
        handler = getattr(self, "error_handler", None)
        return _unpickle, (self.vocab, settings, self._process, handler, self.to_bytes())


def _unpickle(
    vocab: Any, settings: dict[str, Any], process: int, handler: Any, data: bytes
) -> LanguageModelScorer:
    component = LanguageModelScorer(PipelineStandIn(vocab), **settings)
    component._process = process
    if handler is not None:
        component.set_error_handler(handler)
    return component.from_bytes(data)


def _distributions(model: Any) -> set[str]:
    """Whose plugins a model needs, those of the models it is made of included."""
    if model is None:
        return set()
    parts = model.nested().values() if hasattr(model, "nested") else ()
    return {getattr(model, "distribution", "")}.union(*map(_distributions, parts))
