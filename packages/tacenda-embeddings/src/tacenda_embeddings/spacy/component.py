"""The pipeline component of the factories ``lds_embeddings``, ``varembed_embeddings`` and ``token_embeddings``.

`TokenEmbeddings` has a fitted embedder and writes one row per token into ``Doc.tensor`` or an extension; ``spacy
train`` does not train it. `DocEncoder` applies the embedder to documents.
"""

import multiprocessing
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from spacy import language
from spacy.tokens import Doc
from thinc import compat
from thinc.api import get_array_module, get_current_ops, xp2torch

from tacenda import plugins
from tacenda.errors import ConfigurationError, PluginError
from tacenda.spacy import sources
from tacenda.spacy.component import ModelComponent
from tacenda.spacy.documents import WordCache, sentence_cuts
from tacenda_embeddings.spacy.doc_tensor import NAME as DOC_TENSOR
from tacenda_embeddings.spacy.ownership import (
    announce_pipeline_widths,
    announce_writer,
    check_ownership,
    check_sourced,
    describe_pipes,
    find_earlier_owner,
    find_readings,
    list_after,
)
from tacenda_embeddings.spacy.targets import Target
from tacenda_embeddings.spacy.training_input import compare_and_record, forget_training
from tacenda_embeddings.text_vectors import with_output

_SPACYS_WORKER = getattr(language, "_apply_pipes", None)
_WARM_UP_TOKENS = 60  # of the longest sentence to prepare for; longer ones have little to prepare


class TokenEmbeddings(ModelComponent):
    """A spaCy component that writes the vectors of a fitted embedder, one row per token.

    `tacenda_embeddings.spacy.factories` explains the settings. Raises ConfigurationError for a setting out of range.
    """

    command = "tacenda embed fit"
    _pickled = ("_process", "_previous_owner")

    # spaCy tells a component about the pipeline around it only if it looks like one that others listen to
    # (``spacy.ty.ListenedToComponent``). Then it sets ``listener_map`` and calls `find_listeners` for every later
    # component whenever the pipeline changes, even after a component was sourced from another pipeline.
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
        self._previous_owner = "other"
        # the components that spaCy linked after this one, perhaps in another pipeline than the one it was made in
        self._later: list[weakref.ref[Any]] = []
        self._compared = False  # whether all later components have been checked with this model
        self._supplies: bool | None = None  # whether `supply` works

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
        """Load a fitted model, or fit one on raw text; without either, keep the current model.

        Parameters
        ----------
        get_examples
            Training examples, whose tokens are compared with the model's vocabulary; their annotations are not used.
        nlp
            The pipeline; spaCy passes it.
        artifact
            Folder of a saved model (``tacenda embed fit``, ``LDS.save``), the name of an installed one
            (``tacenda models``), or a fitted model itself.
        corpus
            Raw text: a file, a list of files, an iterator of lines (``iter(lines)``), or a `tacenda.corpus.Corpus`.
        tokenizer
            ``"spacy"`` for the pipeline's own, or any that `tacenda.corpus.Corpus.from_text` accepts.
        max_vocabulary, min_count, digits, lowercase, oov
            The vocabulary of the raw text, as in `tacenda.corpus.Corpus.from_text`.
        settings
            Settings of the embedder, such as ``{"n_states": 200}``.

        Raises
        ------
        ConfigurationError
            Both artifact and corpus are given, or neither and the component has no model yet; an argument has no
            effect; the artifact is of another embedder; or ``Doc.tensor`` belongs to another component.
        TacendaError
            The artifact or the corpus cannot be read.
        """
        vocabulary = {"max_vocabulary": max_vocabulary, "min_count": min_count, "oov": oov}
        vocabulary |= {"digits": digits, "lowercase": lowercase}
        self._initialize(
            nlp,
            artifact,
            corpus,
            lambda: self._fit(corpus, tokenizer, vocabulary, settings),
            of_fit={"settings": settings},
            of_text={"tokenizer": tokenizer, **vocabulary},
        )
        self._compared = False
        if get_examples is None:
            self._check_readers()
            return
        # enabled components are trained again
        pipes = [] if nlp is None else [pipe for _, pipe in nlp.pipeline]
        for _, _, layer, _ in find_readings(self, pipes):
            if layer.name != DOC_TENSOR:  # a DocTensor does it itself, when it is initialized
                forget_training(layer)
        self._survey_examples(get_examples)

    def _fit(self, corpus: Any, tokenizer: Any, vocabulary: dict[str, Any], settings: Any) -> Any:
        """Fit a model to raw text, and record the files and the tokenizer of the text in it."""
        words = sources.resolve_tokenizer(tokenizer, self._nlp())
        if self.embedder is None:
            names = sorted({record.name for record in plugins.available("embedders")})
            raise ConfigurationError(
                "no embedder is chosen to fit: set embedder in the configuration of the component, to one of "
                f"{', '.join(names)}"
            )
        model = plugins.make("embedders", self.embedder, settings, distribution=self.distribution)
        text, _ = sources.read_corpus(corpus, words, vocabulary)
        model.fit(text)
        model.fitted_on = {**(getattr(model, "fitted_on", None) or {}), **text.origin}
        return model

    def supply(self, doc: Doc) -> bool:
        """Write vectors to a document that no component has processed, if training would; return whether it would.

        Training does if the component is enabled or frozen, and listed in ``[training] annotating_components``.
        """
        if self._supplies is None:
            annotating = self._list_training_components("annotating")
            self._supplies = self.load_for_reader() and self.name in annotating
        if self._supplies:
            self(doc)
        return self._supplies

    def load_for_reader(self) -> bool:
        """Load the model that the configuration names, unless it is loaded already; return whether there is a model.

        spaCy does not initialize a frozen component, and for ``spacy pretrain`` no component. A component that is
        neither enabled nor frozen does not load a model.
        """
        nlp = self._nlp()
        if nlp is None:
            return False
        if self.name not in (*nlp.pipe_names, *self._list_training_components("frozen")):
            return False
        if self._model is None:
            settings = nlp.config.interpolate()["initialize"]["components"].get(self.name)
            if settings:
                self.initialize(nlp=nlp, **settings)
        return self._model is not None

    def _list_training_components(self, kind: str) -> Sequence[str]:
        """Return the ``frozen`` or ``annotating`` components in ``[training]`` of the pipeline's configuration."""
        nlp = self._nlp()
        return () if nlp is None else nlp.config["training"].get(f"{kind}_components") or ()

    def _check_readers(self) -> None:
        """Check that later components may read these vectors; warn if they were trained on those of another model.

        Raises ConfigurationError if the component was sourced into a pipeline where others read what it writes.
        """
        check_sourced(self._nlp(), self, self._list_later())
        later = (list_after(self._nlp(), self) or []) + self._list_later()
        readings = find_readings(self, {id(pipe): pipe for pipe in later}.values())
        self._compared = compare_and_record(readings, self.fitted, repr(self.name))

    def _list_later(self) -> list[Any]:
        """Return the components that spaCy linked after this one and that still exist."""
        return [pipe for ref in self._later if (pipe := ref()) is not None]

    def set_annotations(self, docs: Sequence[Doc], vectors: Sequence[np.ndarray]) -> None:
        """Write ``vectors``, a float32 array ``(n_tokens, width)`` for each document, to the target.

        Warns once if a later component was trained on the vectors of another model. Raises ConfigurationError if the
        component was sourced into a pipeline where others read what it writes.
        """
        if not self._compared:
            self._check_readers()
        self.target.write(docs, vectors, self.name, self._previous_owner)
        self._set_hooks(docs)

    def restore(self, docs: Iterable[Doc]) -> list[Doc]:
        """Restore the vectors and hooks that documents lost in a ``DocBin``, in bytes or in another process.

        Returns the documents. Vectors that are missing or have another width are computed again, because a ``DocBin``
        does not keep the tensor. If several components append columns, each restores its own; call them in the order of
        the pipeline. ``Doc.to_bytes``, and with it ``nlp.pipe(n_process=2)``, keeps the vectors but not the hooks
        through which `similarity` compares them.
        """
        given = list(docs)
        lacking = [doc for doc in given if not self.target.holds(doc, self.name, self.width)]
        list(self.pipe(lacking))  # which changes the documents themselves
        self._set_hooks(given)
        return given

    def _set_hooks(self, docs: Sequence[Doc]) -> None:
        """Let ``similarity`` compare the vectors in context, if the settings allow it; other hooks stay.

        The default is to do it if spaCy itself takes ``Token.vector`` from the tensor. Without the hooks,
        ``similarity`` is 1 for the same words, and warns (W007) that the pipeline has no word vectors.
        """
        if self.similarity is False or (self.similarity is None and not self.target.is_tensor):
            return
        # Documents leave a worker of ``nlp.pipe(n_process=2)`` without hooks, and spaCy would warn about each (W109).
        work = getattr(multiprocessing.current_process(), "_target", None)
        if self.similarity is None and work is not None and work is _SPACYS_WORKER:
            return
        encoder: Any = self._predictor  # a `DocEncoder`, or None
        for doc in docs:
            if self.similarity or not doc.vocab.vectors.size:
                is_known = encoder is None or encoder.knows(doc)
                hooks = self.target.hooks if is_known else self.target.hooks_of_unknown
                for each in (doc.user_token_hooks, doc.user_span_hooks, doc.user_hooks):
                    each.update(hooks)

    def _predictor_of(self, model: Any) -> "DocEncoder":
        return DocEncoder(model, self.context == "sentence")

    def _set_model(self, model: Any) -> None:
        """Set a fitted model, with the output that the settings name."""
        self._compared, self._supplies = False, None
        super()._set_model(None if model is None else with_output(model, self.output))

    def _load_model(self, source: Any) -> Any:
        return sources.load(source, "embedders", "token embeddings", "transform", self._require)

    def _require(self, name: str | None, owner: str | None, where: str) -> None:
        """Raise ConfigurationError if a model is not of the embedder that the settings name."""
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
        """Check that the component may write its target, and announce its width to later layers.

        Raises the errors of `check_ownership` and `announce_pipeline_widths`.
        """
        check_ownership(nlp, self)
        announce_pipeline_widths(nlp)
        describe_pipes(nlp)
        self._previous_owner = find_earlier_owner(nlp, self)

    # -- calls by spaCy when the pipeline changes --------------------------------------------------

    @property
    def listener_map(self) -> dict[str, Any]:
        """Always empty: later components read the vectors from the document, in training too."""
        return {}

    @listener_map.setter
    def listener_map(self, _: dict[str, Any]) -> None:
        self._later, self._compared, self._supplies = [], False, None
        nlp = self._nlp()
        if nlp is not None:
            describe_pipes(nlp)

    def find_listeners(self, component: Any) -> None:
        """Tell the layers of a later component that read these vectors how wide they are."""
        with suppress(TypeError):  # the component does not support weak references
            self._later.append(weakref.ref(component))
        announce_writer(self, component)

    def add_listener(self, listener: Any, component_name: str) -> None:
        """Do nothing: there are no listeners in spaCy's sense."""

    def remove_listener(self, listener: Any, component_name: str) -> bool:
        """Return False: there are no listeners in spaCy's sense."""
        return False

    def _settings(self) -> dict[str, Any]:
        names = "embedder", "distribution", "output", "similarity", "context", "batch_tokens"
        settings = {name: getattr(self, name) for name in names}
        return {**settings, "target": self.target.name, "mode": self.target.mode}


# -- from documents to vectors ---------------------------------------------------------------------


class DocEncoder:
    """An embedder applied to documents.

    No ``Token`` object is made: the hashes of the tokens of a document are looked up in a cache of words, or of ids if
    the embedder takes ids. The model does not get whitespace tokens; their rows are zeros. An embedder with
    ``transform_into`` and a vocabulary gets packed ids, and writes directly into the arrays of the documents; any other
    gets lists of words. If thinc uses a GPU, and the embedder ``takes_tensors``, these arrays are on the GPU, and the
    embedder computes there.

    ``sentences=True`` gives the model the sentences of a document one by one, where their boundaries are known.
    """

    def __init__(self, model: Any, sentences: bool = False) -> None:
        self.model, self._sentences = model, sentences
        self._vocabulary: Any = None
        self._prepare()

    def _prepare(self) -> None:
        """Read the vocabulary of the model, which has other ids after another fit, unless it has been read."""
        model = self.model
        if model.vocabulary is self._vocabulary:
            return
        self.width, self._vocabulary = int(model.width), model.vocabulary
        self._takes_ids = hasattr(model, "transform_into") and hasattr(model.vocabulary, "id_of")
        self._takes_tensors = self._takes_ids and getattr(model, "takes_tensors", False)
        read, blank = (self._vocabulary.id_of, -1) if self._takes_ids else (str, None)
        self._cache = WordCache(read, blank, self._vocabulary)
        knows = getattr(model, "knows", None)
        self._known = None if knows is None else WordCache(knows, None, self._vocabulary)
        # The model prepares for a look-up and for a sentence of each length when it is loaded, and not at the first
        # text or in every child of a fork.
        if hasattr(model.vocabulary, "id_of"):
            model.vocabulary.id_of("")
        if self._takes_ids:
            cuts = np.cumsum(np.arange(_WARM_UP_TOKENS + 1))
            arrays = [np.empty((n, self.width), np.float32) for n in range(1, _WARM_UP_TOKENS + 1)]
            model.transform_into(np.zeros(cuts[-1], np.int32), cuts, arrays)

    def __call__(self, docs: Sequence[Doc]) -> list[np.ndarray]:
        """Return one float32 array ``(n_tokens, width)`` per document, each with its own memory."""
        if not docs:
            return []
        self._prepare()
        words = np.array(self._cache.read(docs), np.int32 if self._takes_ids else object)
        is_word = words != self._cache.blank
        offsets = np.cumsum([0, *map(len, docs)])
        n_before = np.concatenate([[0], np.cumsum(is_word)])  # words before each token
        arrays, pieces = self._allocate(np.diff(n_before[offsets]).tolist())
        cuts = offsets
        if self._sentences:
            cuts = sentence_cuts(docs, offsets)
            pieces = _cut(pieces, offsets, cuts, n_before)
        write = self.model.transform_into if self._takes_ids else self._transform
        write(words[is_word], n_before[cuts], pieces)
        return [
            rows if len(rows) == stop - start else _insert_zeros(rows, is_word[start:stop])
            for rows, (start, stop) in zip(arrays, pairwise(offsets.tolist()), strict=True)
        ]

    def _allocate(self, lengths: list[int]) -> tuple[list[Any], list[Any]]:
        """Return an array for the words of each document, and the same memory as the model writes to it."""
        ops = get_current_ops()
        if self._takes_tensors and ops.device_type == "gpu" and compat.has_torch_cuda_gpu:
            arrays = [ops.alloc2f(n, self.width) for n in lengths]
            return arrays, [xp2torch(array) for array in arrays]
        arrays = [np.empty((n, self.width), np.float32) for n in lengths]
        return arrays, arrays

    def knows(self, doc: Doc) -> bool:
        """Return whether the model knows a word of a document, or the document has no words.

        Two documents of unknown words only may have the same vectors. Layers can use these, but they do not make the
        documents similar. A model without ``knows`` counts as one that knows every word.
        """
        self._prepare()
        # the first word decides for most documents
        if self._known is None or (len(doc) and self._known.get(doc[0].orth)):
            return True
        known = self._known.read([doc])
        return True in known or False not in known

    def _transform(self, words: np.ndarray, cuts: np.ndarray, pieces: Sequence[np.ndarray]) -> None:
        """Do what ``transform_into`` does, from the words themselves.

        Raises PluginError if the embedder returns arrays of another shape.
        """
        transformed = self.model.transform([words[i:j].tolist() for i, j in pairwise(cuts)])
        vectors = [np.asarray(rows, dtype=np.float32) for rows in transformed]
        if [rows.shape for rows in vectors] != [piece.shape for piece in pieces]:
            raise PluginError(
                f"the embedder {type(self.model).__name__} breaks its contract: for pieces of "
                f"{[len(piece) for piece in pieces[:5]]} tokens it gave arrays of shape "
                f"{[rows.shape for rows in vectors[:5]]}, not (n_tokens, {self.width})"
            )
        for piece, rows in zip(pieces, vectors, strict=True):
            piece[...] = rows


def _cut(
    arrays: list[Any], offsets: np.ndarray, cuts: np.ndarray, n_before: np.ndarray
) -> list[Any]:
    """Return views of ``arrays``, of documents that begin at tokens ``offsets``, for sentences that begin at ``cuts``.

    ``n_before`` is the number of words before each token.
    """
    documents = np.searchsorted(offsets, cuts[:-1], side="right") - 1
    first = n_before[offsets[documents]]
    starts, stops = n_before[cuts[:-1]] - first, n_before[cuts[1:]] - first
    bounds = zip(documents.tolist(), starts.tolist(), stops.tolist(), strict=True)
    return [arrays[document][start:stop] for document, start, stop in bounds]


def _insert_zeros(rows: Any, is_word: np.ndarray) -> Any:
    """Return the rows of all tokens of a document, zeros for tokens that are not words."""
    xp = get_array_module(rows)
    spread = xp.zeros((len(is_word), rows.shape[1]), dtype=np.float32)
    spread[xp.asarray(np.flatnonzero(is_word))] = rows
    return spread
