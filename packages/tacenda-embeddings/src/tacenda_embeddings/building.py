"""Embedders for the command line: made, loaded, told of their text; a pipeline of their vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacenda.errors import ConfigurationError

__all__ = [
    "build",
    "load_embedder",
    "load_morphological",
    "prepare",
    "record_text",
    "vectors_pipeline",
]


def build(model_class: Any, settings: dict[str, Any]) -> Any:
    """Make an unfitted embedder.

    Raises `ConfigurationError` for a setting it does not have.
    """
    try:
        return model_class(**settings)
    except TypeError as error:
        raise ConfigurationError(
            f"{model_class.__name__} cannot be made with the settings "
            f"{', '.join(settings) or '(none)'}: {error}"
        ) from error


def prepare(model: Any, name: str, valid: Path | None, checkpoints: Path | None) -> None:
    """Have a model's training saved in ``checkpoints``.

    Raises `ConfigurationError` where either is given and the model is not one that trains in steps.
    """
    if (valid is not None or checkpoints is not None) and not hasattr(model, "checkpointed"):
        raise ConfigurationError(
            f"the embedder {name!r} is not trained in steps: leave out --valid and --checkpoints"
        )
    if checkpoints is not None:
        model.checkpointed(checkpoints)


def vectors_pipeline(model: Any, output: Path, language: str) -> tuple[int, int]:
    """Save a blank spaCy pipeline whose vectors are the model's; returns words and columns.

    Raises `ConfigurationError` where spaCy is not installed or has no such language.
    """
    try:
        import spacy

        nlp = spacy.blank(language)
    except ImportError as error:
        raise ConfigurationError(
            f"a spaCy pipeline of {language!r} cannot be made ({error}): install "
            "'tacenda-embeddings[spacy]', and name one of spaCy's languages, such as en"
        ) from error
    from tacenda_embeddings.spacy.vectors import use_vectors

    vectors = use_vectors(nlp, model)
    nlp.to_disk(output)
    return vectors.shape


def record_text(model: Any, **facts: Any) -> None:
    """Add to what an artefact says of the text its model was fitted on; a None says nothing."""
    known = dict(getattr(model, "fitted_on", None) or {})
    model.fitted_on = {**known, **{name: fact for name, fact in facts.items() if fact is not None}}


def load_embedder(folder: Path) -> Any:
    """A fitted embedder. Raises `ConfigurationError` for a model of another kind."""
    import tacenda

    embedder = tacenda.load(folder)
    if not hasattr(embedder, "transform"):
        raise ConfigurationError(f"{folder} holds a model {embedder.name!r}, not token embeddings")
    return embedder


def load_morphological(folder: Path) -> Any:
    """A fitted embedder of words and their morphemes. Raises `ConfigurationError` for another model."""
    embedder = load_embedder(folder)
    if not hasattr(embedder, "pieces"):
        raise ConfigurationError(
            f"{folder} holds a model {embedder.name!r}, whose vectors are not made of morphemes: this "
            "command is for varembed and sumembed"
        )
    return embedder
