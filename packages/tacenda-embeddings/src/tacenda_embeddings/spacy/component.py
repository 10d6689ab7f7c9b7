"""The pipeline component behind ``lds_embeddings`` and ``token_embeddings``.

It holds any fitted embedder of the registry, writes one row per token into ``Doc.tensor`` (or an
extension), and trains nothing: the model is loaded or fitted in `TokenEmbeddings.initialize`.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from spacy.tokens import Doc

from tacenda.spacy.component import ModelComponent
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

    command = "tacenda embed fit"
    _pickled = ("_process", "_previous_owner")

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
        super().__init__(
            nlp, name, distribution="tacenda-embeddings", context=context, batch_tokens=batch_tokens
        )
        self.embedder = embedder
        self.distribution = distribution
        self.target = Target(target, mode)
        self._previous_owner = "other"

    @property
    def embeddings(self) -> Any:
        """The fitted embedder; raises `NotFittedError` if there is none yet."""
        return self.fitted

    @property
    def width(self) -> int | None:
        """Columns this component writes; None as long as it has no model."""
        return None if self._model is None else int(self._model.width)

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

        def fit() -> Any:
            vocabulary = {
                "max_vocabulary": max_vocabulary,
                "min_count": min_count,
                "digits": digits,
                "lowercase": lowercase,
                "oov": oov,
            }
            words = resolve_tokenizer(tokenizer, self._nlp())
            model_class = sources.embedder_class(self.embedder, self.distribution)
            return sources.fit(model_class, corpus, words, vocabulary, settings or {})

        self._initialize(nlp, artifact, corpus, fit)

    def set_annotations(self, docs: Sequence[Doc], vectors: Sequence[np.ndarray]) -> None:
        """Write ``vectors``, as `predict` gives them, to the target of every document."""
        self.target.write(docs, vectors, self.name, self._previous_owner)

    def _predictor_of(self, model: Any) -> Callable[[Sequence[Doc]], list[np.ndarray]]:
        """Return what gives one float32 array ``(n_tokens, width)`` per document."""
        return partial(DocEncoder(model), sentences=self.context == "sentence")

    def _load_model(self, source: Any) -> Any:
        return sources.load(source, self.embedder, self.distribution)

    def _check_pipeline(self, nlp: Any) -> None:
        """Raise `ConfigurationError` if ``Doc.tensor`` is not this component's to write."""
        check_ownership(nlp, self)
        announce_widths(nlp)
        self._previous_owner = earlier_owner(nlp, self, self.target.name)

    def _settings(self) -> dict[str, Any]:
        return {
            "embedder": self.embedder,
            "distribution": self.distribution,
            "target": self.target.name,
            "mode": self.target.mode,
            "context": self.context,
            "batch_tokens": self.batch_tokens,
        }
