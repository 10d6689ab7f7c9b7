"""The pipeline component behind ``lds_embeddings`` and ``token_embeddings``.

It holds any fitted embedder of the registry, writes one row per token into ``Doc.tensor`` (or an
extension), and trains nothing: the model is loaded or fitted in `TokenEmbeddings.initialize`.
"""

import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from spacy.pipeline import Pipe
from spacy.tokens import Doc

from tacit.errors import ConfigurationError, NotFittedError
from tacit_embeddings.spacy import sources
from tacit_embeddings.spacy.encoding import DocEncoder, token_batches
from tacit_embeddings.spacy.ownership import announce_widths, check_ownership, earlier_owner
from tacit_embeddings.spacy.requirements import note_requirement
from tacit_embeddings.spacy.serialization import ModelSerialization
from tacit_embeddings.spacy.target import Target

__all__ = ["TokenEmbeddings"]

CONTEXTS = ("doc", "sentence")


class TokenEmbeddings(ModelSerialization, Pipe):
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
    tacit.errors.ConfigurationError
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
        if context not in CONTEXTS:
            raise ConfigurationError(f"context must be 'doc' or 'sentence', not {context!r}")
        if batch_tokens < 1:
            raise ConfigurationError(f"batch_tokens must be positive, not {batch_tokens}")
        self.name = name
        self.vocab = nlp.vocab
        self.embedder = embedder
        self.distribution = distribution
        self.target = Target(target, mode)
        self.context = context
        self.batch_tokens = batch_tokens
        # weak, because the pipeline owns us; used to look for clashes, and for its tokenizer
        self._nlp: Callable[[], Any] = weakref.ref(nlp)
        if hasattr(nlp, "meta"):
            note_requirement(nlp, "tacit-embeddings")
        self._encoder: DocEncoder | None = None
        self._checked: list[str] | None = None
        self._previous_owner = "other"
        self._warned = False

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
            Folder of a saved model (``tacit embed fit``, ``LDS.save``), or a fitted model itself.
        corpus
            Raw text: a file, a list of files, an iterable of lines, or a `tacit.corpus.Corpus`.
        tokenizer
            ``"spacy"``: this pipeline's own; or what `tacit.corpus.Corpus.from_text` takes.
        max_vocabulary, min_count, digits, lowercase, oov
            Its vocabulary, as in `tacit.corpus.Corpus.from_text`.
        settings
            Settings of the embedder, such as ``{"n_states": 200}``.

        Raises
        ------
        tacit.errors.ConfigurationError
            Neither or both of artifact and corpus are given, the artefact is another embedder's, or
            ``Doc.tensor`` belongs to another component.
        tacit.errors.TacitError
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
            words = sources.resolve_tokenizer(tokenizer, self._nlp())
            model_class = sources.embedder_class(self.embedder, self.distribution)
            self._set_model(sources.fit(model_class, corpus, words, vocabulary, settings or {}))
        elif self._encoder is None:
            raise ConfigurationError(
                f"the component {self.name!r} needs a model: set artifact (a folder that `tacit "
                "embed fit` or save() wrote) or corpus (a file of raw text to fit one on), as "
                f"initialize(artifact=...) or in [initialize.components.{self.name}]"
            )
        self._look_around()

    def __call__(self, doc: Doc) -> Doc:
        """Write the vectors of one document."""
        self.set_annotations([doc], self.predict([doc]))
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 1000) -> Iterator[Doc]:
        """Write the vectors of a stream of documents, in order.

        A batch holds at most ``batch_tokens`` tokens and ``batch_size`` documents. Where one
        fails, its documents are tried one by one and only those that fail are given to the error
        handler.
        """
        handler = self.get_error_handler()
        for docs in token_batches(stream, self.batch_tokens, batch_size):
            try:
                self.set_annotations(docs, self.predict(docs))
            except Exception as error:
                if len(docs) == 1:
                    handler(self.name, self, docs, error)
                else:
                    yield from self._one_by_one(docs, handler)
                continue
            yield from docs

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
        if self.context == "sentence" and not self._warned:
            self._warn_without_boundaries(docs)
        assert self._encoder is not None
        return self._encoder(docs, sentences=self.context == "sentence")

    def set_annotations(self, docs: Sequence[Doc], vectors: Sequence[np.ndarray]) -> None:
        """Write ``vectors``, as `predict` gives them, to the target of every document."""
        self.target.write(docs, vectors, self.name, self._previous_owner)

    def _one_by_one(self, docs: list[Doc], handler: Callable[..., Any]) -> Iterator[Doc]:
        for doc in docs:
            try:
                self(doc)
            except Exception as error:
                handler(self.name, self, [doc], error)
            else:
                yield doc

    def _get_model(self) -> Any:
        return None if self._encoder is None else self._encoder.model

    def _set_model(self, model: Any) -> None:
        self._encoder = None if model is None else DocEncoder(model)

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

    def _warn_without_boundaries(self, docs: Sequence[Doc]) -> None:
        if all(len(doc) < 2 or doc.has_annotation("SENT_START") for doc in docs):
            return
        self._warned = True
        warnings.warn(
            f"{self.name!r} has context = 'sentence', but a document has no sentence boundaries, "
            "so the whole document is the context: add a 'senter' or 'sentencizer' before it, or "
            "set context = 'doc'",
            stacklevel=3,
        )

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
    component = TokenEmbeddings(_Pipeline(vocab), **state)
    component._previous_owner = previous_owner
    if handler is not None:
        component.set_error_handler(handler)
    return component.from_bytes(data)


class _Pipeline:
    """Stands for the pipeline while a component is unpickled where there is none."""

    def __init__(self, vocab: Any) -> None:
        self.vocab = vocab
