"""The pipeline component behind ``lds_embeddings``, ``varembed_embeddings`` and ``token_embeddings``.

It holds any fitted embedder of the registry, writes one row per token into ``Doc.tensor`` (or an
extension), and trains nothing: the model is loaded or fitted in `TokenEmbeddings.initialize`.
"""

import multiprocessing
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from spacy import language
from spacy.errors import Warnings
from spacy.tokens import Doc, Token
from thinc import compat
from thinc.api import get_array_module, get_current_ops, xp2torch

from tacenda import plugins
from tacenda.errors import ConfigurationError, PluginError
from tacenda.spacy import sources
from tacenda.spacy.component import ModelComponent
from tacenda.spacy.documents import WordCache, sentence_cuts
from tacenda_embeddings.spacy.doc_tensor import NAME as DOC_TENSOR
from tacenda_embeddings.spacy.doc_tensor import vectors_of
from tacenda_embeddings.spacy.ownership import (
    announce_pipeline_widths,
    announce_writer,
    check_ownership,
    check_sourced,
    describe_pipes,
    find_earlier_owner,
    find_readings,
)
from tacenda_embeddings.spacy.targets import Target
from tacenda_embeddings.spacy.training_input import Fingerprint, forget_training, warn_of_mismatch
from tacenda_embeddings.text_vectors import with_output

_SPACYS_WORKER = getattr(language, "_apply_pipes", None)
_USUAL_TOKENS = 60  # of a sentence; longer ones have little to prepare


class TokenEmbeddings(ModelComponent):
    """A spaCy component that writes the vectors of a fitted embedder, one row per token.

    `tacenda_embeddings.spacy.factories` explains the settings. Raises ConfigurationError for a setting out of range.
    """

    command = "tacenda embed fit"
    _pickled = ("_process", "_previous_owner")

    # spaCy tells a component about the pipeline around it only if it looks like one that others listen to
    # (``spacy.ty.ListenedToComponent``): it then sets ``listener_map``, and calls `find_listeners` for every later
    # component, whenever the pipeline changes, also after a component was sourced from another pipeline.
    model = None
    listeners: ClassVar[Sequence[Any]] = ()
    listening_components: ClassVar[list[str]] = []

    def __init__(
        self,
        nlp: Any,
        name: str = "token_embeddings",
        *,
        embedder: str | None = None,
        distribution: str | None = None,
        output: str | None = None,
        similarity: bool | None = None,
        target: str = "tensor",
        mode: str = "replace",
        context: str = "doc",
        batch_tokens: int = 20_000,
    ) -> None:
        super().__init__(
            nlp, name, distribution="tacenda-embeddings", context=context, batch_tokens=batch_tokens
        )
        self.embedder, self.distribution = embedder, distribution
        self.output, self.similarity = output, similarity
        self.target = Target(target, mode)
        # functions of this module, which pickle with the document
        self._hooks = {
            "similarity": cosine,
            "vector": partial(_vector, target),
            "has_vector": partial(_has_vector, target),
        }
        self._hooks_of_unknown = {
            "similarity": cosine,
            "vector": partial(_build_zero_vector, target),
            "has_vector": _is_blank,
        }
        self._previous_owner = "other"
        # what spaCy last linked after this component, which may be in another pipeline than the one it was made in
        self._later: list[weakref.ref[Any]] = []
        self._linked_anew = False
        self._compared = False  # whether later layers were found to be trained on this model
        self._fingerprint: Fingerprint | None = None  # of the model
        self._supplies: bool | None = None  # whether `supply` works
        self._encoder: DocEncoder | None = None

    @property
    def embeddings(self) -> Any:
        """The fitted embedder; raises `NotFittedError` if there is none yet."""
        return self.fitted

    @property
    def width(self) -> int | None:
        """The number of columns that this component writes, or None if it has no model yet."""
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
        oov: str = "learned",
        settings: dict[str, Any] | None = None,
    ) -> None:
        """Load a fitted model, or fit one on raw text; with neither, keep the model there is.

        Parameters
        ----------
        get_examples
            Their tokens are compared with the model's vocabulary; raw text teaches these models, not annotations.
        nlp
            The pipeline; spaCy passes it.
        artifact
            Folder of a saved model (``tacenda embed fit``, ``LDS.save``), the name of an installed one
            (``tacenda models``), or a fitted model itself.
        corpus
            Raw text: a file, a list of files, an iterator of lines (``iter(lines)``), or a `tacenda.corpus.Corpus`.
        tokenizer
            ``"spacy"``: this pipeline's own; or what `tacenda.corpus.Corpus.from_text` takes.
        max_vocabulary, min_count, digits, lowercase, oov
            Its vocabulary, as in `tacenda.corpus.Corpus.from_text`.
        settings
            Settings of the embedder, such as ``{"n_states": 200}``.

        Raises
        ------
        ConfigurationError
            Neither or both of artifact and corpus are given, the artifact is another embedder's, or
            ``Doc.tensor`` belongs to another component.
        TacendaError
            The artifact or the corpus cannot be read.
        """
        vocabulary = {"max_vocabulary": max_vocabulary, "min_count": min_count, "oov": oov}
        vocabulary |= {"digits": digits, "lowercase": lowercase}
        self._initialize(
            nlp, artifact, corpus, lambda: self._fit(corpus, tokenizer, vocabulary, settings)
        )
        self._compared = False
        if get_examples is None:
            self._compare_readers()
            return
        # enabled layers forget what they were trained on
        pipes = [] if nlp is None else [pipe for _, pipe in nlp.pipeline]
        for _, _, layer, _ in find_readings(self, pipes):
            if layer.name != DOC_TENSOR:  # a DocTensor does it itself, when it is initialized
                forget_training(layer)
        self._survey_examples(get_examples)

    def _fit(self, corpus: Any, tokenizer: Any, vocabulary: dict[str, Any], settings: Any) -> Any:
        """Return a model fitted on raw text, which notes the files and the tokenizer of the text."""
        words = sources.resolve_tokenizer(tokenizer, self._nlp())
        if self.embedder is None:
            known = sorted({record.name for record in plugins.available("embedders")})
            raise ConfigurationError(
                "no embedder is chosen to fit: set embedder in the configuration of the component, to one of "
                f"{', '.join(known)}"
            )
        model = plugins.make("embedders", self.embedder, settings, distribution=self.distribution)
        text, _ = sources.as_corpus(corpus, words, vocabulary)
        model.fit(text)
        model.fitted_on = {**(getattr(model, "fitted_on", None) or {}), **text.origin}
        return model

    def predict(self, docs: Sequence[Doc]) -> list[np.ndarray]:
        """Return the vectors of documents, one array ``(n_tokens, width)`` each; raises as `ModelComponent.predict`.

        Warns once if a later component was trained on the vectors of another model, or if most tokens are unknown.
        """
        vectors: list[np.ndarray] = super().predict(docs)
        if not self._compared:
            self._compare_readers()
        return vectors

    def supply(self, doc: Doc) -> bool:
        """Write vectors to a document that no component has seen, if training would have; return whether it would.

        Training does if the component is enabled or frozen, and listed in ``[training] annotating_components``.
        """
        if self._supplies is None:
            self._supplies = self.load_for_reader() and self.name in self._training("annotating")
        if self._supplies:
            self(doc)
        return self._supplies

    def load_for_reader(self) -> bool:
        """Load the model that the configuration names unless there is one already; return whether there is one now.

        spaCy does not initialize a frozen component, and for ``spacy pretrain`` none at all.
        """
        nlp = self._nlp()
        usual = nlp is not None and self.name in (*nlp.pipe_names, *self._training("frozen"))
        if usual and self._model is None:
            settings = nlp.config.interpolate()["initialize"]["components"].get(self.name)
            if settings:
                self.initialize(nlp=nlp, **settings)
        return usual and self._model is not None

    def _training(self, kind: str) -> Sequence[str]:
        """Return the ``frozen`` or ``annotating`` components of the pipeline's configuration."""
        nlp = self._nlp()
        return () if nlp is None else nlp.config["training"].get(f"{kind}_components") or ()

    def _compare_readers(self) -> None:
        """Warn if later components were trained on the vectors of another model."""
        nlp = self._nlp()
        pipes = [] if nlp is None else [pipe for _, pipe in nlp.components]
        here = next((i for i, pipe in enumerate(pipes) if pipe is self), len(pipes))
        later = {id(pipe): pipe for pipe in pipes[here + 1 :]}
        later |= {id(pipe): pipe for ref in self._later if (pipe := ref()) is not None}
        readings = list(find_readings(self, later.values()))
        if not readings:
            self._compared = True
            return
        if self._fingerprint is None:
            self._fingerprint = Fingerprint.of(self.fitted)
        self._compared = warn_of_mismatch(readings, self._fingerprint, self.fitted, repr(self.name))

    def set_annotations(self, docs: Sequence[Doc], vectors: Sequence[np.ndarray]) -> None:
        """Write ``vectors``, as `predict` gives them, to the target of every document.

        Raises ConfigurationError if the component was sourced into a pipeline where others read what it writes.
        """
        if self._linked_anew:
            check_sourced(self._nlp(), self, [pipe for ref in self._later if (pipe := ref())])
            self._linked_anew = False
        self.target.write(docs, vectors, self.name, self._previous_owner)
        self._hook(docs)

    def restore(self, docs: Iterable[Doc]) -> list[Doc]:
        """Restore what documents lost in a ``DocBin``, in bytes or in another process, and return the documents.

        A ``DocBin`` keeps no tensor: vectors that are missing or have another width are computed again. If several
        components append columns, each restores its own; call them in the order of the pipeline.
        ``Doc.to_bytes``, and with it ``nlp.pipe(n_process=2)``, keeps the vectors but not the hooks through which
        `similarity` compares them.
        """
        given = list(docs)
        lacking = [doc for doc in given if not self.target.holds(doc, self.name, self.width)]
        for doc in self.pipe(lacking):
            assert doc is not None
        self._hook(given)
        return given

    def _hook(self, docs: Sequence[Doc]) -> None:
        """Let ``similarity`` compare the vectors in context, where the settings say so; other hooks stay.

        By default that is where spaCy itself takes ``Token.vector`` from the tensor. Without hooks
        ``similarity`` is 1 wherever the words are the same, and warns (W007) that the pipeline has no word vectors.
        """
        if self.similarity is False or (self.similarity is None and not self.target.is_tensor):
            return
        # Documents leave a worker of ``nlp.pipe(n_process=2)`` without hooks, and spaCy would warn of each (W109).
        work = getattr(multiprocessing.current_process(), "_target", None)
        if self.similarity is None and work is not None and work is _SPACYS_WORKER:
            return
        for doc in docs:
            if self.similarity or not doc.vocab.vectors.size:
                known = self._encoder is None or self._encoder.knows(doc)
                hooks = self._hooks if known else self._hooks_of_unknown
                doc.user_token_hooks.update(hooks)
                doc.user_span_hooks.update(hooks)
                doc.user_hooks.update(hooks)

    def _predictor_of(self, model: Any) -> Callable[[Sequence[Doc]], list[np.ndarray]]:
        self._encoder = DocEncoder(model)
        return partial(self._encoder, sentences=self.context == "sentence")

    def _set_model(self, model: Any) -> None:
        """Take a fitted model, with the output that the settings name."""
        self._compared, self._supplies = False, None
        self._fingerprint, self._encoder = None, None
        super()._set_model(None if model is None else with_output(model, self.output))

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

    def _check_pipeline(self, nlp: Any) -> None:
        """Raise ConfigurationError if ``Doc.tensor`` is not this component's to write, or is read before."""
        check_ownership(nlp, self)
        announce_pipeline_widths(nlp)
        describe_pipes(nlp)
        self._previous_owner = find_earlier_owner(nlp, self, self.target.name)

    # -- what spaCy tells of the pipeline ----------------------------------------------------------

    @property
    def listener_map(self) -> dict[str, Any]:
        """Empty: what this component writes is read from the document, in training too."""
        return {}

    @listener_map.setter
    def listener_map(self, _: dict[str, Any]) -> None:
        self._later, self._linked_anew = [], True
        self._compared, self._supplies = False, None
        nlp = self._nlp()
        if nlp is not None:
            describe_pipes(nlp)

    def find_listeners(self, component: Any) -> None:
        """Tell the layers of a later component that read these vectors how wide they are."""
        with suppress(TypeError):  # a component that cannot be referred to weakly
            self._later.append(weakref.ref(component))
        announce_writer(self, component)

    def add_listener(self, listener: Any, component_name: str) -> None:
        """Do nothing: nobody listens, in spaCy's sense."""

    def remove_listener(self, listener: Any, component_name: str) -> bool:
        """Return False: nobody listens, in spaCy's sense."""
        return False

    def _settings(self) -> dict[str, Any]:
        names = "embedder", "distribution", "output", "similarity", "context", "batch_tokens"
        own = {name: getattr(self, name) for name in names}
        return {**own, "target": self.target.name, "mode": self.target.mode}


# -- from documents to vectors ---------------------------------------------------------------------


class DocEncoder:
    """Applies one embedder to documents.

    No ``Token`` object is made: a document gives its array of hashes, and a cache from the hash to the word (or to
    its id, where the embedder takes ids) does the rest. Whitespace tokens are left out of what the model sees and
    get rows of zeros. An embedder with ``transform_into`` and a vocabulary is given packed ids, and writes straight
    into the arrays of the documents; any other is given lists of words. Where thinc works on a GPU, and the embedder
    says that it ``takes_tensors``, these arrays are there, and the embedder computes there.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self._vocabulary: Any = None
        self._prepare()

    def _prepare(self) -> None:
        """Read the model if it was fitted since it was read last, because its ids are others then."""
        model = self.model
        if self._vocabulary is model.vocabulary:
            return
        self.width = int(model.width)
        self._vocabulary = model.vocabulary
        self._takes_ids = hasattr(model, "transform_into") and hasattr(model.vocabulary, "id_of")
        self._takes_tensors = self._takes_ids and getattr(model, "takes_tensors", False)
        self._cache = (
            WordCache(self._vocabulary.id_of, -1, self._vocabulary)
            if self._takes_ids
            else WordCache(str, None, self._vocabulary)
        )
        knows = getattr(model, "knows", None)
        self._known = None if knows is None else WordCache(knows, None, self._vocabulary)
        if self._takes_ids:
            # What a model prepares at its first call, and for each length of a sentence, belongs to loading it, not to
            # the first text, and not to every child of a fork.
            cuts = np.cumsum(np.arange(_USUAL_TOKENS + 1))
            rows = [np.empty((n, self.width), np.float32) for n in range(1, _USUAL_TOKENS + 1)]
            model.transform_into(np.zeros(cuts[-1], np.int32), cuts, rows)

    def __call__(self, docs: Sequence[Doc], sentences: bool = False) -> list[np.ndarray]:
        """Return one float32 array ``(n_tokens, width)`` per document, each with its own memory.

        ``sentences=True`` gives the model the sentences of a document one by one, where their
        boundaries are known.
        """
        if not docs:
            return []
        self._prepare()
        offsets = np.cumsum([0, *map(len, docs)])
        words: Any = self._cache.read(docs)
        if self._takes_ids:
            ids = np.array(words, dtype=np.int32)
            kept = ids >= 0
            words = ids[kept]
        else:
            kept = np.array([word is not None for word in words], dtype=bool)
            words = [word for word in words if word is not None]
        seen = np.concatenate([[0], np.cumsum(kept)])  # tokens before each that the model sees
        bounds = seen[offsets].tolist()
        ops = get_current_ops()
        on_gpu = self._takes_tensors and ops.device_type == "gpu" and compat.has_torch_cuda_gpu
        arrays = [
            ops.alloc2f(j - i, self.width) if on_gpu else np.empty((j - i, self.width), np.float32)
            for i, j in pairwise(bounds)
        ]
        pieces = [xp2torch(array) for array in arrays] if on_gpu else arrays
        cuts = offsets
        if sentences:
            cuts = sentence_cuts(docs, offsets)
            documents = np.searchsorted(offsets, cuts[:-1], side="right") - 1
            pieces = [
                pieces[document][start - bounds[document] : stop - bounds[document]]
                for document, (start, stop) in zip(
                    documents.tolist(), pairwise(seen[cuts].tolist()), strict=True
                )
            ]
        if self._takes_ids:
            self.model.transform_into(words, seen[cuts], pieces)
        else:
            self._transform(words, seen[cuts].tolist(), pieces)
        for i, (start, stop) in enumerate(pairwise([] if kept.all() else offsets.tolist())):
            # rows of zeros at the tokens that the model did not see
            if len(arrays[i]) < stop - start:
                rows, xp = arrays[i], get_array_module(arrays[i])
                arrays[i] = xp.zeros((stop - start, self.width), dtype=np.float32)
                arrays[i][xp.asarray(np.flatnonzero(kept[start:stop]))] = rows
        return arrays

    def knows(self, doc: Doc) -> bool:
        """Return whether the model knows a word of a document, or the document has none; True if no model says so.

        Two documents of unknown words alone may have the same vectors, which layers can use, but which do not make
        the documents similar.
        """
        self._prepare()
        if self._known is None or (len(doc) and self._known.get(doc[0].orth)):
            return True  # as for most documents, at once
        found = self._known.read([doc])
        return True in found or False not in found

    def _transform(self, words: list[str], cuts: list[int], pieces: Sequence[np.ndarray]) -> None:
        """Write the rows of ``words[cuts[i] : cuts[i + 1]]`` into piece i, for all i."""
        given = self.model.transform([words[i:j] for i, j in pairwise(cuts)])
        vectors = [np.asarray(rows, dtype=np.float32) for rows in given]
        if [rows.shape for rows in vectors] != [piece.shape for piece in pieces]:
            raise PluginError(
                f"the embedder {type(self.model).__name__} breaks its contract: for pieces of "
                f"{[len(piece) for piece in pieces[:5]]} tokens it gave arrays of shape "
                f"{[rows.shape for rows in vectors[:5]]}, not (n_tokens, {self.width})"
            )
        for piece, rows in zip(pieces, vectors, strict=True):
            piece[...] = rows


# -- similarity in context -------------------------------------------------------------------------


def cosine(one: Any, other: Any) -> float:
    """Return the cosine of the vectors of two tokens, spans or documents; 0 where one of them is zero.

    Raises ConfigurationError if they have different widths.
    """
    a, b = one.vector, other.vector
    xp = get_array_module(a)
    lengths = xp.linalg.norm(a) * xp.linalg.norm(b)
    if not lengths:
        if not (one.has_vector and other.has_vector):
            warnings.warn(Warnings.W008.format(obj=type(one).__name__), stacklevel=2)
        return 0.0
    if a.shape != b.shape:
        raise ConfigurationError(
            f"a {type(one).__name__} whose vector has {len(a)} columns cannot be compared with a "
            f"{type(other).__name__} whose vector has {len(b)}: process both with the same pipeline"
        )
    return float(a @ b / lengths)


def _rows(source: str, given: Any) -> Any:
    """Return the rows of a token (1, width), or of a span or document (n_tokens, width); None without vectors."""
    doc = given if isinstance(given, Doc) else given.doc
    rows = vectors_of(doc, source)
    if rows is None or isinstance(given, Doc):
        return rows
    if isinstance(given, Token):
        return rows[given.i : given.i + 1]
    return rows[given.start : given.end]


def _vector(source: str, given: Any) -> Any:
    """Return the mean of the rows (width,)."""
    rows = _rows(source, given)
    if rows is None:
        return get_array_module(given.vocab.vectors.data).zeros(0, dtype="f")
    return rows.mean(axis=0) if len(rows) else rows.sum(axis=0)


def _has_vector(source: str, given: Any) -> bool:
    rows = _rows(source, given)
    return rows is not None and (bool(rows.any()) or _is_blank(given))


def _build_zero_vector(source: str, given: Any) -> Any:
    """Return zeros (width,), for a text in which the model knows no word."""
    return 0 * _vector(source, given)


def _is_blank(given: Any) -> bool:
    return not given.text.strip()
