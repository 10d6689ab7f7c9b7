"""Sources of a component's model: a saved model, a fitted object, or raw text."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacenda import artifact as artifacts
from tacenda.corpus import Corpus
from tacenda.errors import ConfigurationError
from tacenda.estimator import resolve
from tacenda.tokenizers import spacy_config, spacy_words

#: Given name, distribution and place of a model, raises ConfigurationError if it is not wanted.
Check = Callable[[str | None, str | None, str], None]


def load(source: Any, kind: str, what: str, method: str, check: Check | None = None) -> Any:
    """Return a fitted model, whatever holds it.

    ``source`` is a folder, the name of an installed model, an `Artifact`, what ``Artifact.to_bytes`` returned, or a
    fitted model, which has ``to_artifact`` and ``method`` and is returned as it is. ``kind`` is the kind of the
    registry, and ``what`` the same in words; ``check`` raises if this component may not have the model.

    Raises
    ------
    ConfigurationError
        It is of another kind, or not the model wanted.
    TacendaError
        It cannot be read, or its plugin cannot be loaded.
    """
    if isinstance(source, str | Path):
        artifact, where = artifacts.read(Path(source)), str(source)
    elif isinstance(source, bytes):
        artifact, where = artifacts.Artifact.from_bytes(source), "the saved model"
    elif isinstance(source, artifacts.Artifact):
        artifact, where = source, "the artifact"
    elif hasattr(source, method) and hasattr(source, "to_artifact"):
        if check is not None:
            check(getattr(source, "name", None), None, "the model given")
        _ = source.vocabulary  # raises if it was never fitted
        return source
    else:
        raise ConfigurationError(
            "artifact must be the folder of a saved model or a fitted model, not "
            f"{type(source).__name__}"
        )
    if artifact.kind != kind:
        raise ConfigurationError(f"{where} is a model of the kind {artifact.kind}, not {what}")
    if check is not None:
        check(artifact.name, artifact.distribution, where)
    return resolve(artifact)


def as_text(corpus: Any) -> tuple[Any, list[str] | None]:
    """Return a file or files as paths and their names, and an iterable of lines as it is with None.

    A string is the name of a file, as everywhere in spaCy's configuration, which has no other way to name one. Raises
    ConfigurationError for a string that is a line of text.
    """
    if isinstance(corpus, str | Path):
        corpus = [corpus]
    if not isinstance(corpus, list | tuple):
        return corpus, None
    for each in corpus:
        if isinstance(each, str) and len(each.split()) > 1 and not os.path.lexists(each):
            raise ConfigurationError(
                f"corpus names files, and there is no file {each[:60]!r}: for lines of text, give an iterator of them, "
                "iter(lines), or a corpus, tacenda.Corpus.from_text(iter(lines), ...)"
            )
    paths = [Path(path) for path in corpus]
    return paths, [path.name for path in paths]


def as_corpus(
    corpus: Any, tokenizer: Any, vocabulary: dict[str, Any]
) -> tuple[Corpus, list[str] | None]:
    """Return what `as_text` takes as a corpus, and the names of its files; a `Corpus` is returned as it is.

    ``tokenizer`` and ``vocabulary`` are arguments of ``Corpus.from_text``.
    """
    if isinstance(corpus, Corpus):
        return corpus, None
    text, names = as_text(corpus)
    return Corpus.from_text(text, tokenizer=tokenizer, **vocabulary), names


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
    """Splits text with a pipeline's tokenizer, and leaves whitespace tokens out."""

    def __init__(self, nlp: Any) -> None:
        wanted = spacy_config(nlp.lang).get("nlp", {}).get("tokenizer", {})
        other = [name for name in wanted if getattr(nlp.tokenizer, name, None) != wanted[name]]
        self.name = f"spacy:{nlp.lang}" + " with another segmenter" * bool(other)
        self._split = spacy_words(nlp.tokenizer)

    def __call__(self, text: str) -> list[str]:
        return self._split(text)
