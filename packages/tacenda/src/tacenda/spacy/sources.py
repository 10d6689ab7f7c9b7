"""Where a component's model comes from: an artefact, a fitted object, or raw text."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacenda import artifact as artifacts
from tacenda.artifact.saveable import resolve
from tacenda.corpus import Corpus
from tacenda.errors import ConfigurationError

__all__ = ["Check", "PipelineWords", "as_corpus", "from_bytes", "load", "resolve_tokenizer"]

#: Given name, distribution and place of a model, raises `ConfigurationError` if it is not wanted.
Check = Callable[[str | None, str | None, str], None]


def load(source: Any, kind: str, what: str, method: str, check: Check) -> Any:
    """Return the model in a folder, or ``source`` itself if it is a fitted model.

    Parameters
    ----------
    source
        A folder, an `Artifact`, or an object with ``to_artifact`` and ``method``.
    kind, what
        The kind of the registry, and the same in words.
    method
        What every model of the kind can do.
    check
        Whether this component may have it.

    Raises
    ------
    tacenda.errors.ConfigurationError
        It is of another kind, or not the model wanted.
    tacenda.errors.TacendaError
        It cannot be read, or its plugin cannot be loaded.

    """
    if isinstance(source, str | Path):
        return _model(artifacts.read(Path(source)), str(source), kind, what, check)
    if isinstance(source, artifacts.Artifact):
        return _model(source, "the artefact", kind, what, check)
    if not (hasattr(source, method) and hasattr(source, "to_artifact")):
        raise ConfigurationError(
            "artifact must be the folder of a saved model or a fitted model, not "
            f"{type(source).__name__}"
        )
    check(getattr(source, "name", None), None, "the model given")
    _ = source.vocabulary  # raises if it was never fitted
    return source


def from_bytes(data: bytes, kind: str, what: str, check: Check) -> Any:
    """Return the model that ``Artifact.to_bytes`` serialized."""
    return _model(artifacts.Artifact.from_bytes(data), "the saved model", kind, what, check)


def as_corpus(
    corpus: Any, tokenizer: Any, vocabulary: dict[str, Any]
) -> tuple[Corpus, list[str] | None]:
    """Return raw text as a corpus, and the names of its files if it came from files.

    Parameters
    ----------
    corpus
        A file, a list of files, an iterable of lines, or a `Corpus`, which stays as it is.
    tokenizer, vocabulary
        The arguments of ``Corpus.from_text``.

    """
    if isinstance(corpus, Corpus):
        return corpus, None
    paths = None
    if isinstance(corpus, str | Path):
        corpus = [corpus]
    if isinstance(corpus, list | tuple):
        corpus = paths = [Path(path) for path in corpus]
    names = None if paths is None else [path.name for path in paths]
    return Corpus.from_text(corpus, tokenizer=tokenizer, **vocabulary), names


def resolve_tokenizer(tokenizer: Any, nlp: Any) -> Any:
    """Return the tokenizer of ``nlp`` for ``"spacy"``, and anything else as it is."""
    if not isinstance(tokenizer, str) or tokenizer != "spacy":
        return tokenizer
    if nlp is None:
        raise ConfigurationError(
            "tokenizer = 'spacy' means the pipeline's own, but the pipeline is gone: pass nlp=nlp, "
            "or another tokenizer"
        )
    return PipelineWords(nlp)


class PipelineWords:
    """The tokens of a pipeline's tokenizer, whitespace left out."""

    def __init__(self, nlp: Any) -> None:
        self.name = f"spacy:{nlp.lang}"
        self._tokenizer = nlp.tokenizer

    def __call__(self, text: str) -> list[str]:
        return [token.text for token in self._tokenizer(text) if not token.is_space]


def _model(artifact: artifacts.Artifact, where: str, kind: str, what: str, check: Check) -> Any:
    if artifact.kind != kind:
        raise ConfigurationError(f"{where} holds one of the {artifact.kind}, not {what}")
    check(artifact.name, artifact.distribution, where)
    return resolve(artifact)
