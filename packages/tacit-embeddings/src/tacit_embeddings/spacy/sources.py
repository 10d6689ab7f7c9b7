"""Where a component's model comes from: an artefact, a fitted object, or raw text."""

from pathlib import Path
from typing import Any

from tacit import artifact as artifacts
from tacit import plugins
from tacit.artifact.saveable import resolve
from tacit.errors import ConfigurationError
from tacit_embeddings.building import build, record_text

__all__ = ["embedder_class", "fit", "from_bytes", "load", "resolve_tokenizer"]

KIND = "embedders"


def load(source: Any, embedder: str | None, distribution: str | None) -> Any:
    """Return the model in a folder, or ``source`` itself if it is a fitted model.

    Raises `ConfigurationError` if it is not the embedder this component is for, and what
    `tacit.artifact.read` and `tacit.plugins.get` raise.
    """
    if isinstance(source, str | Path):
        return _model(artifacts.read(Path(source)), str(source), embedder, distribution)
    if isinstance(source, artifacts.Artifact):
        return _model(source, "the artefact", embedder, distribution)
    if not (hasattr(source, "transform") and hasattr(source, "to_artifact")):
        raise ConfigurationError(
            "artifact must be the folder of a saved model or a fitted model, not "
            f"{type(source).__name__}"
        )
    _check_name(getattr(source, "name", embedder), "the model given", embedder)
    _ = source.vocabulary  # raises if it was never fitted
    return source


def from_bytes(data: bytes, embedder: str | None, distribution: str | None) -> Any:
    """Return the model that ``Artifact.to_bytes`` serialized."""
    return _model(artifacts.Artifact.from_bytes(data), "the saved model", embedder, distribution)


def embedder_class(embedder: str | None, distribution: str | None) -> Any:
    """Return the class a component fits; raises `ConfigurationError` if it names none."""
    if embedder is None:
        known = sorted({record.name for record in plugins.available(KIND)})
        raise ConfigurationError(
            "fitting needs to know which model: set embedder in the configuration of the "
            f"component, one of {', '.join(known)}"
        )
    return plugins.get(KIND, embedder, distribution=distribution)


def fit(
    model_class: Any,
    corpus: Any,
    tokenizer: Any,
    vocabulary: dict[str, Any],
    settings: dict[str, Any],
) -> Any:
    """Fit a model on raw text.

    ``corpus`` is a file, a list of files, an iterable of lines or a `Corpus`; ``vocabulary`` the
    arguments of ``Corpus.from_text`` about it; ``settings`` the model's own.
    """
    from tacit.corpus import Corpus

    model = build(model_class, settings)
    paths = None
    if not isinstance(corpus, Corpus):
        if isinstance(corpus, str | Path):
            corpus = [corpus]
        if isinstance(corpus, list | tuple):
            corpus = paths = [Path(path) for path in corpus]
        corpus = Corpus.from_text(corpus, tokenizer=tokenizer, **vocabulary)
    model.fit(corpus)
    names = None if paths is None else [path.name for path in paths]
    record_text(model, text=names, tokenizer=getattr(tokenizer, "name", tokenizer))
    return model


def resolve_tokenizer(tokenizer: Any, nlp: Any) -> Any:
    """Return the tokenizer of ``nlp`` for ``"spacy"``, and anything else as it is."""
    if not isinstance(tokenizer, str) or tokenizer != "spacy":
        return tokenizer
    if nlp is None:
        raise ConfigurationError(
            "tokenizer = 'spacy' means the pipeline's own, but the pipeline is gone: pass nlp=nlp, "
            "or another tokenizer"
        )
    return _SpacyWords(nlp)


class _SpacyWords:
    """The tokens of a pipeline's tokenizer, whitespace left out."""

    def __init__(self, nlp: Any) -> None:
        self.name = f"spacy:{nlp.lang}"
        self._tokenizer = nlp.tokenizer

    def __call__(self, text: str) -> list[str]:
        return [token.text for token in self._tokenizer(text) if not token.is_space]


def _model(
    artifact: artifacts.Artifact, where: str, embedder: str | None, distribution: str | None
) -> Any:
    if artifact.kind != KIND:
        raise ConfigurationError(f"{where} holds one of the {artifact.kind}, not token embeddings")
    _check_name(artifact.name, where, embedder)
    if distribution is not None and artifact.distribution != distribution:
        raise ConfigurationError(
            f"{where} is the embedder {artifact.name!r} of {artifact.distribution}, not of "
            f"{distribution}: use nlp.add_pipe('token_embeddings'), which loads any"
        )
    return resolve(artifact)


def _check_name(name: str | None, where: str, embedder: str | None) -> None:
    if embedder is not None and name != embedder:
        raise ConfigurationError(
            f"{where} is the embedder {name!r}, not {embedder!r}: use "
            f"nlp.add_pipe('token_embeddings', config={{'embedder': {name!r}}})"
        )
