"""`ModelComponent`: a pipeline component that holds a fitted model and trains nothing."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from numbers import Number
from pathlib import Path
from typing import Any, ClassVar, Self

import srsly
from spacy import util
from spacy.pipeline import Pipe
from spacy.tokens import Doc

from tacenda import reading, store
from tacenda.corpus import Corpus
from tacenda.errors import ArtifactError, ConfigurationError, NotFittedError, check_whole, warn
from tacenda.plugins import canonical, version_of
from tacenda.spacy.documents import TokenSurvey, has_boundaries, token_batches

_SURVEYED_EXAMPLES = 100  # examples of a training whose tokens are looked at


class ModelComponent(Pipe):
    """Base of components with a fitted model: its sources, batches, context, errors, serialization.

    The settings of a component are part of the pipeline's configuration. The model is not: it is loaded
    or fitted in ``initialize``, and saved with the pipeline as an artifact.

    A component implements `_load_model`, `_predictor_of`, `set_annotations` and `_settings`, may override
    `_check_pipeline`, and has an ``initialize`` that calls `_initialize`. Raises ConfigurationError for a setting that
    is out of range.

    Parameters
    ----------
    nlp, name
        The pipeline and the component's name in it.
    distribution
        The distribution of the component, which a packaged pipeline then requires.
    context
        What a prediction may depend on: one of ``contexts``.
    batch_tokens
        Number of tokens given to the model at a time; a longer document is processed alone.
    """

    #: What `context` may be. In a "stream" each document depends on those before it.
    contexts: ClassVar[tuple[str, ...]] = ("doc", "sentence")
    #: The command that fits and saves a model for this component, for error messages.
    command: ClassVar[str]
    #: Attributes that a pickled component takes along, besides its settings and its model.
    _pickled: ClassVar[tuple[str, ...]] = ("_process",)

    def __init__(
        self, nlp: Any, name: str, *, distribution: str, context: str, batch_tokens: int
    ) -> None:
        if context not in self.contexts:
            *most, last = map(repr, self.contexts)
            raise ConfigurationError(
                f"context must be {', '.join(most)} or {last}, not {context!r}"
            )
        check_whole("batch_tokens", batch_tokens)
        self.name = name
        self.vocab = nlp.vocab
        self.context = context
        self.batch_tokens = batch_tokens
        # weak, because the pipeline owns its components; used to look for clashes, and for its tokenizer
        self._nlp: Callable[[], Any] = weakref.ref(nlp)
        note_requirement(nlp, distribution)
        self._model: Any = None
        self._predictor: Callable[[Sequence[Doc]], Any] | None = None
        self._survey: Any = None  # of the tokens of the pipeline; None without a model
        self._checked: list[str] | None = None  # names of the pipeline when it was last checked
        self._process = os.getpid()
        self._warned = False  # of documents without sentence boundaries

    # -- what a component implements -------------------------------------------------------------

    def _load_model(self, source: Any) -> Any:
        """Return the model in a folder, an artifact or bytes, or ``source`` if it is a fitted model."""
        raise NotImplementedError

    def _predictor_of(self, model: Any) -> Callable[[Sequence[Doc]], Any]:
        """Return what applies a fitted model to documents; its results go to `set_annotations`."""
        raise NotImplementedError

    def set_annotations(self, docs: Sequence[Doc], found: Any) -> None:
        """Write what `predict` returned into the documents."""
        raise NotImplementedError

    def _settings(self) -> dict[str, Any]:
        """Return the keyword arguments with which the constructor makes this component again."""
        raise NotImplementedError

    def _check_pipeline(self, nlp: Any) -> None:
        """Raise ConfigurationError if another component of the pipeline is in the way of this one."""

    # -- the model -------------------------------------------------------------------------------

    @property
    def fitted(self) -> Any:
        """The fitted model; raises NotFittedError if there is none yet."""
        if self._model is None:
            raise NotFittedError(
                f"the component {self.name!r} has no model yet: call "
                f"nlp.get_pipe({self.name!r}).initialize(artifact=FOLDER or NAME), or set artifact or "
                f"corpus in [initialize.components.{self.name}] and call nlp.initialize()"
            )
        return self._model

    def _initialize(
        self,
        nlp: Any,
        artifact: Any,
        corpus: Any,
        fit: Callable[[], Any],
        of_fit: Mapping[str, Any],
        of_text: Mapping[str, Any],
    ) -> None:
        """Load ``artifact``, or call ``fit`` if a corpus is given; with neither, keep the model.

        ``of_fit`` and ``of_text`` are the arguments of ``initialize`` that have an effect only on a fit, and only on
        raw text. Raises ConfigurationError if they were given in vain.
        """
        if nlp is not None:
            self._nlp = weakref.ref(nlp)
        if artifact is not None and corpus is not None:
            raise ConfigurationError(
                f"{self.name!r} was given both an artifact and a corpus: give one"
            )
        if artifact is None and corpus is None and self._model is None:
            raise ConfigurationError(
                f"the component {self.name!r} needs a model: set artifact (a folder that "
                f"`{self.command}` or save() wrote, or a name of `tacenda models`) or corpus (a file of raw text to "
                f"fit one on), as initialize(artifact=...) or in [initialize.components.{self.name}]"
            )
        idle, reason = dict[str, Any](), ""
        if corpus is None:
            idle, reason = {**of_fit, **of_text}, "without a corpus to fit a model to"
        elif isinstance(corpus, Corpus):
            idle, reason = {**of_text}, "on a tacenda.Corpus, whose text has been read"
        parameters = inspect.signature(self.initialize).parameters
        for name, value in idle.items():
            default = parameters[name].default
            # only these are compared: an array compared with a value has no truth value
            is_plain = isinstance(value, str | Number | Mapping)
            if value is not default and not (is_plain and value in (default, {})):
                raise ConfigurationError(
                    f"{self.name!r} was given {name} = {value!r:.60}, which has no effect {reason}: leave it out"
                )
        if artifact is not None:
            self._set_model(self._load_model(artifact))
        elif corpus is not None:
            self._set_model(fit())
        self._meet_pipeline()

    def _set_model(self, model: Any) -> None:
        """Take a fitted model, or None."""
        self._predictor = None if model is None else self._predictor_of(model)
        self._model = model
        self._survey = None if model is None else self._survey_of(model)

    def _survey_of(self, model: Any) -> TokenSurvey:
        """Return what counts the tokens that a model knows."""
        return TokenSurvey(model, repr(self.name))

    def _survey_examples(self, get_examples: Callable[[], Iterable[Any]] | None) -> None:
        """Look at the tokens of the first examples of a training."""
        if get_examples is not None:
            docs = (each.predicted for each in islice(get_examples(), _SURVEYED_EXAMPLES))
            self._survey.count(token.text for doc in docs for token in doc if not token.is_space)

    def _meet_pipeline(self) -> None:
        """Check the pipeline, and note in its metadata what it now requires."""
        nlp = self._nlp()
        if nlp is None:
            return
        self._check_pipeline(nlp)
        for distribution in _find_distributions(self._model):
            note_requirement(nlp, distribution)
        self._checked = nlp.pipe_names

    # -- documents -------------------------------------------------------------------------------

    def predict(self, docs: Sequence[Doc]) -> Any:
        """Return the model's predictions for the documents, for `set_annotations`.

        Warns once if the model does not know most tokens. Raises NotFittedError if there is no model, and
        ConfigurationError if another component of the pipeline is in the way, or a stream is processed in parallel.
        """
        predictor = self._predictor or self.fitted  # which raises
        nlp = self._nlp()
        if nlp is not None and self._checked != nlp.pipe_names:
            self._meet_pipeline()
        # a child of the process that made the component, as in ``nlp.pipe(n_process=2)``
        in_a_child = os.getpid() != self._process and multiprocessing.parent_process() is not None
        if self.context == "stream" and in_a_child:
            raise ConfigurationError(
                f"{self.name!r} has context = 'stream', which goes from each document to the next and "
                "cannot be shared by processes: use n_process = 1, or context = 'doc'"
            )
        if not self._warned and self.context == "sentence" and not all(map(has_boundaries, docs)):
            self._warned = True
            warn(
                f"{self.name!r} has context = 'sentence', but a document has no sentence boundaries, so the whole "
                "document is the context: add a 'senter' or 'sentencizer' before it, or set context = 'doc'"
            )
        self._survey.count(token.text for doc in docs for token in doc if not token.is_space)
        return predictor(docs)

    def __call__(self, doc: Doc) -> Doc:
        """Apply the model to one document."""
        self._annotate([doc])
        return doc

    def _annotate(self, docs: Sequence[Doc]) -> None:
        """Apply the model to documents."""
        self.set_annotations(docs, self.predict(docs))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 1000) -> Iterator[Doc]:
        """Apply the model to a stream of documents, in order.

        A batch holds at most ``batch_tokens`` tokens and ``batch_size`` documents. If one fails, its
        documents are tried one by one, and those that fail go to the error handler.
        """
        handler = self.get_error_handler()
        for docs in token_batches(stream, self.batch_tokens, batch_size):
            try:
                self._annotate(docs)
            except Exception as error:
                if len(docs) == 1:
                    handler(self.name, self, docs, error)
                    continue
                for doc in docs:
                    try:
                        self(doc)
                    except Exception as error:
                        handler(self.name, self, [doc], error)
                    else:
                        yield doc
            else:
                yield from docs

    # -- saving, loading, pickling ---------------------------------------------------------------

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Serialize the fitted model; ``exclude=["model"]`` leaves it out."""
        model = None if "model" in exclude else self._model
        artifact = b"" if model is None else model.to_artifact().to_bytes()
        return bytes(util.to_bytes({"model": lambda: artifact}, ()))

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> Self:
        """Restore what `to_bytes` returned; a component saved without a model has none afterwards.

        Raises ArtifactError for other bytes.
        """
        try:
            artifact = srsly.msgpack_loads(data)["model"]
            if not isinstance(artifact, bytes):
                raise TypeError(f"the model is {artifact!r:.40}")
        except (ValueError, TypeError, KeyError) as error:
            raise ArtifactError(
                f"cannot restore {self.name!r} from bytes that to_bytes did not return"
            ) from error
        if "model" not in exclude:
            self._set_model(self._load_model(artifact) if artifact else None)
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Save to a folder: ``cfg.json`` and, unless ``exclude=["model"]``, an artifact in ``model``.

        Raises ArtifactError if it cannot be written.
        """
        folder = reading.path_of(path, ArtifactError)
        model = None if "model" in exclude else self._model
        with store.writing(folder, ArtifactError):
            folder.mkdir(parents=True, exist_ok=True)
            if model is not None:
                model.save(folder / "model")
            # last, and it decides: the folder may hold the model of an earlier save
            srsly.write_json(folder / "cfg.json", {"fitted": model is not None})

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Self:
        """Load what `to_disk` saved; a component saved without a model has none afterwards.

        Raises ArtifactError if it is missing or damaged.
        """
        folder = reading.path_of(path, ArtifactError)
        if "model" not in exclude:
            fitted = read_cfg(folder).get("fitted")
            if not isinstance(fitted, bool):
                raise ArtifactError(
                    f"{folder / 'cfg.json'} is damaged: its 'fitted' is {fitted!r:.40}, not true or false"
                )
            self._set_model(self._load_model(folder / "model") if fitted else None)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle through `to_bytes`, for the processes of ``nlp.pipe(n_process=...)``."""
        settings = {"name": self.name, **self._settings()}
        taken = {name: getattr(self, name) for name in self._pickled}
        handler = getattr(self, "error_handler", None)
        return _unpickle, (type(self), self.vocab, settings, taken, handler, self.to_bytes())


def read_cfg(folder: Path) -> dict[str, Any]:
    """Read the ``cfg.json`` of a component's folder. Raises ArtifactError if it is missing or damaged."""
    try:
        found = reading.read_json(folder / "cfg.json")
    except (OSError, ValueError) as error:
        raise ArtifactError(f"cannot read {folder / 'cfg.json'}: {error}") from error
    if not isinstance(found, dict):
        raise ArtifactError(f"cannot read {folder / 'cfg.json'}: it must be an object")
    return found


def _unpickle(
    component_class: type[Any],
    vocab: Any,
    settings: dict[str, Any],
    taken: dict[str, Any],
    handler: Any,
    data: bytes,
) -> Any:
    """Make a component of what `ModelComponent.__reduce__` returned."""

    class Pipeline:  # there is none in the process that unpickles it
        meta: ClassVar[dict[str, Any]] = {}

    Pipeline.vocab = vocab  # type: ignore[attr-defined]
    component = component_class(Pipeline(), **settings)
    vars(component).update(taken)
    if handler is not None:
        component.set_error_handler(handler)
    return component.from_bytes(data)


def _find_distributions(model: Any) -> set[str]:
    """Return the distributions whose plugins a model needs, those of models within it included."""
    if model is None:
        return set()
    parts = model.nested().values() if hasattr(model, "nested") else ()
    return {getattr(model, "distribution", "")}.union(*map(_find_distributions, parts))


def note_requirement(nlp: Any, distribution: str) -> None:
    """Note in ``nlp.meta["requirements"]`` that a packaged pipeline needs a distribution.

    ``spacy package`` looks for requirements of its own, but knows a distribution only by a
    ``top_level.txt``, which neither an editable install nor a modern wheel has. The range noted is that
    of the installed version; a requirement that is noted already stays as it is.
    """
    version = version_of(distribution)
    if not version:
        return  # registered by hand, or run from a source tree: there is nothing to install
    wanted = f"{distribution}{util.get_minor_version_range(version)}"
    noted = nlp.meta.setdefault("requirements", [])
    if canonical(distribution) not in {
        canonical(util.split_requirement(each)[0]) for each in noted
    }:
        noted.append(wanted)
