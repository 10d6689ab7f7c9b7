"""`ModelComponent`: a pipeline component that holds a fitted model and trains nothing."""

import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from spacy.pipeline import Pipe
from spacy.tokens import Doc

from tacenda.errors import ConfigurationError
from tacenda.spacy.batches import token_batches
from tacenda.spacy.documents import boundaries_known
from tacenda.spacy.requirements import note_requirement
from tacenda.spacy.serialization import ModelSerialization

__all__ = ["ModelComponent", "PipelineStandIn"]


class ModelComponent(ModelSerialization, Pipe):
    """Batches, errors, context and serialization of a component.

    A component implements `predict` and `set_annotations`, and what `ModelSerialization` asks for.

    Parameters
    ----------
    nlp, name
        The pipeline and the component's name in it.
    distribution
        The distribution of the component, which a packaged pipeline then requires.
    context
        ``"doc"``, ``"sentence"`` or another of ``contexts``.
    batch_tokens
        Tokens given to the model at a time; a longer document goes alone.

    Raises
    ------
    tacenda.errors.ConfigurationError
        A setting is out of range.

    """

    #: What `context` may be.
    contexts: tuple[str, ...] = ("doc", "sentence")

    def __init__(
        self, nlp: Any, name: str, distribution: str, context: str, batch_tokens: int
    ) -> None:
        if context not in self.contexts:
            *most, last = map(repr, self.contexts)
            raise ConfigurationError(
                f"context must be {', '.join(most)} or {last}, not {context!r}"
            )
        if batch_tokens < 1:
            raise ConfigurationError(f"batch_tokens must be positive, not {batch_tokens}")
        self.name = name
        self.vocab = nlp.vocab
        self.context = context
        self.batch_tokens = batch_tokens
        # weak, because the pipeline owns us; used to look for clashes, and for its tokenizer
        self._nlp: Callable[[], Any] = weakref.ref(nlp)
        if hasattr(nlp, "meta"):
            note_requirement(nlp, distribution)
        self._warned = False

    def predict(self, docs: Sequence[Doc]) -> Any:
        """Return what the model says of the documents."""
        raise NotImplementedError

    def set_annotations(self, docs: Sequence[Doc], found: Any) -> None:
        """Write what `predict` found into the documents."""
        raise NotImplementedError

    def __call__(self, doc: Doc) -> Doc:
        """Apply the model to one document."""
        self.set_annotations([doc], self.predict([doc]))
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 1000) -> Iterator[Doc]:
        """Apply the model to a stream of documents, in order.

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

    def _one_by_one(self, docs: list[Doc], handler: Callable[..., Any]) -> Iterator[Doc]:
        for doc in docs:
            try:
                self(doc)
            except Exception as error:
                handler(self.name, self, [doc], error)
            else:
                yield doc

    def warn_without_boundaries(self, docs: Sequence[Doc]) -> None:
        """Warn, once in the life of the component, if sentences are the context and unknown."""
        if self._warned or self.context != "sentence" or all(map(boundaries_known, docs)):
            return
        self._warned = True
        warnings.warn(
            f"{self.name!r} has context = 'sentence', but a document has no sentence boundaries, "
            "so the whole document is the context: add a 'senter' or 'sentencizer' before it, or "
            "set context = 'doc'",
            stacklevel=4,
        )


class PipelineStandIn:
    """Stands for the pipeline while a component is unpickled where there is none."""

    def __init__(self, vocab: Any) -> None:
        self.vocab = vocab
