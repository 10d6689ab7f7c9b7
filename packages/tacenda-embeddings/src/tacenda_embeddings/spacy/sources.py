"""Where a component's model comes from: an artefact, a fitted object, or raw text."""

from typing import Any

from tacenda import plugins
from tacenda.errors import ConfigurationError
from tacenda.spacy import sources
from tacenda_embeddings.building import build, record_text

__all__ = ["embedder_class", "fit", "load"]

KIND = "embedders"


def load(source: Any, embedder: str | None, distribution: str | None) -> Any:
    """Return the model in a folder or in bytes, or ``source`` itself if it is a fitted model.

    Raises `ConfigurationError` if it is not the embedder this component is for, and what
    `tacenda.spacy.sources.load` raises.
    """
    check = _check(embedder, distribution)
    return sources.load(source, KIND, "token embeddings", "transform", check)


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
    model = build(model_class, settings)
    text, names = sources.as_corpus(corpus, tokenizer, vocabulary)
    model.fit(text)
    record_text(model, text=names, tokenizer=getattr(tokenizer, "name", tokenizer))
    return model


def _check(embedder: str | None, distribution: str | None) -> sources.Check:
    def check(name: str | None, owner: str | None, where: str) -> None:
        if embedder is not None and (name or embedder) != embedder:
            raise ConfigurationError(
                f"{where} is the embedder {name!r}, not {embedder!r}: use "
                f"nlp.add_pipe('token_embeddings', config={{'embedder': {name!r}}})"
            )
        if None not in (distribution, owner) and owner != distribution:
            raise ConfigurationError(
                f"{where} is the embedder {name!r} of {owner}, not of "
                f"{distribution}: use nlp.add_pipe('token_embeddings'), which loads any"
            )

    return check
