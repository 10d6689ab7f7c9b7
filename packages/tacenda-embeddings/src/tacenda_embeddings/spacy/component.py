"""The pipeline component behind ``lds_embeddings``, ``varembed_embeddings`` and ``token_embeddings``.

It holds any fitted embedder of the registry, writes one row per token into ``Doc.tensor`` (or an
extension), and trains nothing: the model is loaded or fitted in `TokenEmbeddings.initialize`.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from spacy.tokens import Doc

from tacenda import plugins
from tacenda.corpus import Corpus
from tacenda.errors import ConfigurationError
from tacenda.spacy import sources
from tacenda.spacy.component import ModelComponent
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
    ConfigurationError
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
        """The number of columns that this component writes; None as long as it has no model."""
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
        ConfigurationError
            Neither or both of artifact and corpus are given, the artefact is another embedder's, or
            ``Doc.tensor`` belongs to another component.
        TacendaError
            The artefact or the corpus cannot be read.
        """

        def fit() -> Any:
            words = sources.resolve_tokenizer(tokenizer, self._nlp())
            vocabulary = {
                "max_vocabulary": max_vocabulary,
                "min_count": min_count,
                "digits": digits,
                "lowercase": lowercase,
                "oov": oov,
            }
            return self._fit(corpus, words, vocabulary, settings)

        self._initialize(nlp, artifact, corpus, fit)

    def set_annotations(self, docs: Sequence[Doc], vectors: Sequence[np.ndarray]) -> None:
        """Write ``vectors``, as `predict` gives them, to the target of every document."""
        self.target.write(docs, vectors, self.name, self._previous_owner)

    def _predictor_of(self, model: Any) -> Callable[[Sequence[Doc]], list[np.ndarray]]:
        """Return what gives one float32 array ``(n_tokens, width)`` per document."""
        return partial(DocEncoder(model), sentences=self.context == "sentence")

    def _load_model(self, source: Any) -> Any:
        return sources.load(source, "embedders", "token embeddings", "transform", self._require)

    def _require(self, name: str | None, owner: str | None, where: str) -> None:
        """Raise ConfigurationError if a model is not the embedder that this component is for."""
        if self.embedder is not None and (name or self.embedder) != self.embedder:
            raise ConfigurationError(
                f"{where} is the embedder {name!r}, not {self.embedder!r}: use "
                f"nlp.add_pipe('token_embeddings', config={{'embedder': {name!r}}})"
            )
        if None not in (self.distribution, owner) and owner != self.distribution:
            raise ConfigurationError(
                f"{where} is the embedder {name!r} of {owner}, not of "
                f"{self.distribution}: use nlp.add_pipe('token_embeddings'), which loads any"
            )

    def _fit(self, corpus: Any, tokenizer: Any, vocabulary: dict[str, Any], settings: Any) -> Any:
        """Return a model fitted on raw text, which notes the files and the tokenizer of the text."""
        if self.embedder is None:
            known = sorted({record.name for record in plugins.available("embedders")})
            raise ConfigurationError(
                "fitting needs to know which model: set embedder in the configuration of the "
                f"component, one of {', '.join(known)}"
            )
        model = plugins.make("embedders", self.embedder, settings, distribution=self.distribution)
        text, _ = sources.as_corpus(corpus, tokenizer, vocabulary)
        model.fit(text)
        origin = dict(text.origin)
        if not isinstance(corpus, Corpus):
            origin["tokenizer"] = getattr(tokenizer, "name", origin["tokenizer"])
        model.fitted_on = {**(getattr(model, "fitted_on", None) or {}), **origin}
        return model

    def _check_pipeline(self, nlp: Any) -> None:
        """Raise ConfigurationError if ``Doc.tensor`` is not this component's to write."""
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
