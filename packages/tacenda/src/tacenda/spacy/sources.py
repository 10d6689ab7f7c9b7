"""Sources of a component's model: a saved model, a fitted model, or raw text."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacenda import artifact as artifacts
from tacenda.corpus import Corpus
from tacenda.errors import ConfigurationError, CorpusError
from tacenda.estimator import resolve
from tacenda.tokenizers import CUSTOM, make_spacy_tokenizer, spacy_words

#: Takes the name, the distribution and the place of a model; raises ConfigurationError if the model is not wanted.
Check = Callable[[str | None, str | None, str], None]


def load(
    source: Any, kind: str, description: str, required_method: str, check: Check | None = None
) -> Any:
    """Return the fitted model of a source.

    ``source`` is a folder, the name of an installed model, an `Artifact`, the bytes of ``Artifact.to_bytes``, or a
    fitted model, which has ``to_artifact`` and the required method and is returned as it is. ``kind`` is the kind of
    the model in the registry, ``description`` the same in words; ``check`` raises for a model of no use.

    Raises ConfigurationError for a wrong source or kind, NotFittedError, and other TacendaErrors if a saved model
    cannot be read or its plugin cannot be loaded.
    """
    if isinstance(source, str | Path):
        artifact, where = artifacts.read(source), str(source)
    elif isinstance(source, bytes):
        artifact, where = artifacts.Artifact.from_bytes(source), "the saved model"
    elif isinstance(source, artifacts.Artifact):
        artifact, where = source, "the artifact"
    elif hasattr(source, required_method) and hasattr(source, "to_artifact"):
        if check is not None:
            check(getattr(source, "name", None), None, "the model given")
        # raises NotFittedError if it was never fitted
        _ = source.vocabulary
        return source
    else:
        raise ConfigurationError(
            f"artifact must be the folder of a saved model or a fitted model, not {type(source).__name__}"
        )
    if artifact.kind != kind:
        raise ConfigurationError(
            f"{where} is a model of the kind {artifact.kind}, not {description}"
        )
    if check is not None:
        check(artifact.name, artifact.distribution, where)
    return resolve(artifact)


def resolve_text(corpus: Any) -> tuple[Any, list[str] | None]:
    """Return (paths, file names) for files, or (lines, None) for an iterable of lines.

    A string is the name of a file, as everywhere in spaCy's configuration. Raises ConfigurationError for a string that
    is a line of text.
    """
    if isinstance(corpus, str | Path):
        corpus = [corpus]
    if not isinstance(corpus, list | tuple) or not all(isinstance(x, str | Path) for x in corpus):
        return corpus, None
    for each in corpus:
        if isinstance(each, str) and len(each.split()) > 1 and not os.path.lexists(each):
            raise ConfigurationError(
                f"corpus names files, and there is no file {each[:60]!r}: for lines of text, give an iterator of them, "
                "iter(lines), or a corpus, tacenda.Corpus.from_text(iter(lines), ...)"
            )
    paths = [Path(path) for path in corpus]
    return paths, [path.name for path in paths]


def read_corpus(
    corpus: Any, tokenizer: Any, selection: dict[str, Any]
) -> tuple[Corpus, list[str] | None]:
    """Read files or lines as `resolve_text` takes them; return the corpus and the names of the files, if any.

    A `Corpus` is returned as it is. ``tokenizer`` and ``selection``, the options that choose the vocabulary, are
    arguments of ``Corpus.from_text``. Raises CorpusError if the text cannot be read, and what `resolve_text` raises.
    """
    if isinstance(corpus, Corpus):
        return corpus, None
    text, names = resolve_text(corpus)
    return Corpus.from_text(text, tokenizer=tokenizer, **selection), names


def resolve_tokenizer(tokenizer: Any, nlp: Any) -> Any:
    """Return the tokenizer of ``nlp`` for ``"spacy"``, and anything else as it is.

    Raises ConfigurationError for ``"spacy"`` if ``nlp`` is None, the reference to a pipeline that was deleted.
    """
    if not isinstance(tokenizer, str) or tokenizer != "spacy":
        return tokenizer
    if nlp is None:
        raise ConfigurationError(
            "tokenizer = 'spacy' means the pipeline's own, but the pipeline is gone: pass nlp=nlp, or another tokenizer"
        )
    return PipelineWords(nlp)


class PipelineWords:
    """The tokenizer of a pipeline, without whitespace tokens, as a callable from a line to its tokens.

    ``name`` is ``"spacy:LANG"`` if `tacenda.tokenizers.get_tokenizer` makes the same tokenizer of it, and otherwise
    ``"spacy:LANG (custom)"``.
    """

    def __init__(self, nlp: Any) -> None:
        self.name = f"spacy:{nlp.lang}"
        if not _has_default_tokenizer(nlp):
            self.name += CUSTOM
        self._split = spacy_words(nlp.tokenizer)

    def __call__(self, text: str) -> list[str]:
        return self._split(text)


def _has_default_tokenizer(nlp: Any) -> bool:
    """Return whether class, rules and settings of a pipeline's tokenizer are the defaults of its language."""
    given = nlp.tokenizer
    try:
        default = make_spacy_tokenizer(nlp.lang)
    except CorpusError:  # it needs a package that the pipeline's own tokenizer does not need
        return False
    return type(given) is type(default) and bool(
        given.to_bytes(exclude=["vocab"]) == default.to_bytes(exclude=["vocab"])
    )
