"""The pipeline component behind ``lds_embeddings`` and ``token_embeddings``.

It holds any fitted embedder of the registry, writes one row per token into ``Doc.tensor`` (or an
extension), and trains nothing: the model is loaded or fitted in `TokenEmbeddings.initialize`.
"""

import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from spacy.tokens import Doc

from tacenda.errors import ConfigurationError, NotFittedError
from tacenda.spacy.component import ModelComponent, PipelineStandIn
from tacenda.spacy.requirements import note_requirement
from tacenda.spacy.sources import resolve_tokenizer
from tacenda_embeddings.spacy import sources
from tacenda_embeddings.spacy.encoding import DocEncoder
from tacenda_embeddings.spacy.ownership import announce_widths, check_ownership, earlier_owner
from tacenda_embeddings.spacy.target import Target

__all__ = ["TokenEmbeddings"]


class TokenEmbeddings(ModelComponent):
    """Writes the vectors of a fitted embedder, one row per token.

    Parameters
    ----------
    nlp, name
        The pipeline and the component's name in it.
    embedder, distribution
        Which model of the registry; None: whatever an artefact holds, whoever has it.
    target
        ``"tensor"`` or the name of an extension.
    mode
        ``"replace"`` or ``"append"``.
    context
        ``"doc"`` or ``"sentence"``.
    batch_tokens
        Tokens given to the model at a time; a longer document goes alone.

    Raises
    ------
    tacenda.errors.ConfigurationError
        A setting is out of range.

    """

    def __init__(
        self,
        nlp: Any,
        name: str = "token_embeddings",
        *,
        embedder: str | None = None,
        distribution: str | None = None,
        target: str = "tensor",
        mode: str = "replace",
        context: str = "doc",
        batch_tokens: int = 20_000,
    ) -> None:
        super().__init__(nlp, name, "tacenda-embeddings", context, batch_tokens)
        self.embedder = embedder
        self.distribution = distribution
        self.target = Target(target, mode)
        self._encoder: DocEncoder | None = None
        self._checked: list[str] | None = None
        self._previous_owner = "other"

    @property
    def embeddings(self) -> Any:
        """The fitted embedder; raises `NotFittedError` if there is none yet."""
        if self._encoder is None:
            raise NotFittedError(
                f"the component {self.name!r} has no model yet: call "
                f"nlp.get_pipe({self.name!r}).initialize(artifact=FOLDER), or set artifact or "
                f"corpus in [initialize.components.{self.name}] and call nlp.initialize()"
            )
        return self._encoder.model

    @property
    def width(self) -> int | None:
        """Columns this component writes; None as long as it has no model."""
        return None if self._encoder is None else self._encoder.width

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Any]] | None = None,
        *,
        nlp: Any = None,
        artifact: Any = None,
        corpus: Any = None,
        tokenizer: Any = "spacy",
        max_vocabulary: int | None = 40_000,
        min_count: int = 1,
        digits: bool = True,
        lowercase: bool = False,
        oov: str = "classes",
        settings: dict[str, Any] | None = None,
    ) -> None:
        """Load a fitted model, or fit one on raw text; with neither, keep the model there is.

        Parameters
        ----------
        get_examples
            Not used: raw text teaches these models, not annotations.
        nlp
            The pipeline; spaCy passes it.
        artifact
            Folder of a saved model (``tacenda embed fit``, ``LDS.save``), or a fitted model itself.
        corpus
            Raw text: a file, a list of files, an iterable of lines, or a `tacenda.corpus.Corpus`.
        tokenizer
            ``"spacy"``: this pipeline's own; or what `tacenda.corpus.Corpus.from_text` takes.
        max_vocabulary, min_count, digits, lowercase, oov
            Its vocabulary, as in `tacenda.corpus.Corpus.from_text`.
        settings
            Settings of the embedder, such as ``{"n_states": 200}``.

        Raises
        ------
        tacenda.errors.ConfigurationError
            Neither or both of artifact and corpus are given, the artefact is another embedder's, or
            ``Doc.tensor`` belongs to another component.
        tacenda.errors.TacendaError
            The artefact or the corpus cannot be read.

        """
        if nlp is not None:
            self._nlp = weakref.ref(nlp)
        if artifact is not None and corpus is not None:
            raise ConfigurationError(
                f"{self.name!r} was given both an artifact and a corpus: give one"
            )
        if artifact is not None:
            self._set_model(sources.load(artifact, self.embedder, self.distribution))
        elif corpus is not None:
            vocabulary = {
                "max_vocabulary": max_vocabulary,
                "min_count": min_count,
                "digits": digits,
                "lowercase": lowercase,
                "oov": oov,
            }
            words = resolve_tokenizer(tokenizer, self._nlp())
            model_class = sources.embedder_class(self.embedder, self.distribution)
            self._set_model(sources.fit(model_class, corpus, words, vocabulary, settings or {}))
        elif self._encoder is None:
            raise ConfigurationError(
                f"the component {self.name!r} needs a model: set artifact (a folder that `tacenda "
                "embed fit` or save() wrote) or corpus (a file of raw text to fit one on), as "
                f"initialize(artifact=...) or in [initialize.components.{self.name}]"
            )
        self._look_around()

    def predict(self, docs: Sequence[Doc]) -> list[np.ndarray]:
        """Return one float32 array ``(n_tokens, width)`` per document; whitespace tokens have
        zeros.

        Raises `NotFittedError` without a model, `ConfigurationError` if ``Doc.tensor`` is not ours
        to write.
        """
        _ = self.embeddings
        nlp = self._nlp()
        if nlp is not None and self._checked != nlp.pipe_names:
            self._look_around()
        self.warn_without_boundaries(docs)
        assert self._encoder is not None
        return self._encoder(docs, sentences=self.context == "sentence")

    def set_annotations(self, docs: Sequence[Doc], vectors: Sequence[np.ndarray]) -> None:
        """Write ``vectors``, as `predict` gives them, to the target of every document."""
        self.target.write(docs, vectors, self.name, self._previous_owner)

    def _get_model(self) -> Any:
        return None if self._encoder is None else self._encoder.model

    def _set_model(self, model: Any) -> None:
        self._encoder = None if model is None else DocEncoder(model)

    def _load_model(self, source: Path | bytes) -> Any:
        if isinstance(source, bytes):
            return sources.from_bytes(source, self.embedder, self.distribution)
        return sources.load(source, self.embedder, self.distribution)

    def _look_around(self) -> None:
        """Check the pipeline around us, once for every composition it has."""
        nlp = self._nlp()
        if nlp is None:
            return
        check_ownership(nlp, self)
        announce_widths(nlp)
        if self._encoder is not None:
            note_requirement(nlp, getattr(self._encoder.model, "distribution", ""))
        self._previous_owner = earlier_owner(nlp, self, self.target.name)
        self._checked = nlp.pipe_names

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle through `to_bytes`, for the processes of ``nlp.pipe(n_process=...)``."""
        state = {
            "name": self.name,
            "embedder": self.embedder,
            "distribution": self.distribution,
            "target": self.target.name,
            "mode": self.target.mode,
            "context": self.context,
            "batch_tokens": self.batch_tokens,
        }
        handler = getattr(self, "error_handler", None)
        return _unpickle, (self.vocab, state, self._previous_owner, handler, self.to_bytes())


def _unpickle(
    vocab: Any, state: dict[str, Any], previous_owner: str, handler: Any, data: bytes
) -> TokenEmbeddings:
    component = TokenEmbeddings(PipelineStandIn(vocab), **state)
    component._previous_owner = previous_owner
    if handler is not None:
        component.set_error_handler(handler)
    return component.from_bytes(data)
