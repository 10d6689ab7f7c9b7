"""``tacenda.MorphologicalVectors.v1``: word vectors of a pipeline, also for out-of-vocabulary words.

With these in ``nlp.vocab``, ``Token.vector``, ``similarity`` and ``StaticVectors`` use a fitted `VarEmbed` or
`SumEmbed`; a word outside its vocabulary has the vector its morphemes predict. Whitespace, and a word without any known
morpheme, have no vector. In a configuration, one section names the model:

    [initialize.before_init]
    @callbacks = "tacenda.use_vectors.v1"
    source = "FOLDER"

This module imports only spaCy, its dependencies and ``tacenda.errors``; a model's needs are imported when it is loaded.
"""

import shutil
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import srsly
from spacy.attrs import ORTH
from spacy.strings import StringStore, get_string_id
from spacy.vectors import BaseVectors
from thinc.api import NumpyOps, get_current_ops

from tacenda.errors import ArtifactError, ConfigurationError
from tacenda_embeddings.spacy.training_input import (
    compare_and_record,
    find_static_readings,
    forget_training,
    record_training,
)

NAME = "tacenda.MorphologicalVectors.v1"
USE, CHECK = "tacenda.use_vectors.v1", "tacenda.check_vectors.v1"
FOLDER = "morphological_vectors"

#: The first bytes of `MorphologicalVectors.to_bytes`; earlier versions wrote a model without added words by itself.
_MAGIC_WITH_ADDED = b"TACENDA VECTORS\x01"
_UNKNOWN_WORD = "\ue000" * 8  # letters for private use, which no vocabulary has

#: Words outside the vocabulary whose vectors are cached; some 15 MB at a width of 100.
_CACHED_WORDS = 20_000


def morphological_vectors() -> Callable[[Any], "MorphologicalVectors"]:
    """Return the factory that ``[nlp.vectors]`` names; `use_vectors` or a saved pipeline sets the model."""
    return lambda vocab: MorphologicalVectors(strings=vocab.strings)


def uses_vectors(source: str) -> Callable[[Any], Any]:
    """Return the callback that ``[initialize.before_init]`` names: `use_vectors` with the model in a folder."""

    def before_init(nlp: Any) -> Any:
        """Give the pipeline its vectors, and record them in the layers that will be trained on them."""
        # enabled components are initialized next, and will be trained on these vectors
        readings = list(find_static_readings(nlp.pipeline))
        for _, _, layer, _ in readings:
            forget_training(layer)
        record_training(readings, use_vectors(nlp, source).model)
        return nlp

    return before_init


def checks_vectors() -> Callable[[Any], Any]:
    """Return the callback that a pipeline with these vectors names in ``[nlp] after_creation``.

    spaCy loads the pipeline of ``[initialize] vectors``, and one that components are sourced from, into the vocabulary
    of another pipeline. If the vectors of that one are of another class, spaCy warns only that there are none (W112).
    """

    def after_creation(nlp: Any) -> Any:
        """Tell the vectors which pipeline reads them. Raises ConfigurationError for vectors of another class."""
        if not isinstance(nlp.vocab.vectors, MorphologicalVectors):
            raise ConfigurationError(
                "the word vectors of this pipeline come from a model, and a pipeline with an ordinary table of vectors "
                f"cannot load them: in the configuration that names this pipeline, add [nlp.vectors] with @vectors = "
                f'"{NAME}", or name the model instead, in [initialize.before_init] with @callbacks = "{USE}" and '
                "source = FOLDER"
            )
        nlp.vocab.vectors.serve(nlp)
        return nlp

    return after_creation


def use_vectors(nlp: Any, source: Any) -> "MorphologicalVectors":
    """Use a fitted model for the word vectors of a pipeline, and save it with the pipeline.

    ``source`` is a fitted `VarEmbed` or `SumEmbed`, or the folder of one. Raises ConfigurationError for any other
    model, and TacendaError for one that cannot be read.
    """
    from tacenda.spacy.component import note_requirement

    vectors = MorphologicalVectors(strings=nlp.vocab.strings, model=load_word_model(source))
    nlp.vocab.vectors = vectors
    config = nlp.config
    config["nlp"]["vectors"] = {"@vectors": NAME}
    if config["nlp"]["after_creation"] is None:
        config["nlp"]["after_creation"] = {"@callbacks": CHECK}
    nlp.config = config
    note_requirement(nlp, "tacenda-embeddings")
    vectors.serve(nlp)
    vectors.compare_readers()
    return vectors


def load_word_model(source: Any) -> Any:
    """Return the fitted model of a ``source`` of `use_vectors`; raises the same errors."""
    from tacenda.spacy import sources

    model = sources.load(source, "embedders", "token embeddings", "transform")
    if not hasattr(model, "vectors") or not hasattr(model, "pieces"):
        raise ConfigurationError(
            f"{getattr(model, 'name', type(model).__name__)!r} has no vectors of single words: use a varembed or "
            "sumembed for the vectors of a pipeline"
        )
    return model


class MorphologicalVectors(BaseVectors):
    """Vectors of a fitted model, by the hash of a token's text.

    ``data`` has a row for each word of the model's vocabulary, and ``key2row`` is its number. A word without a row has
    a vector too, unless the model knows none of its morphemes: ``vectors[key]`` and `get_batch` compute it. A token
    merged from several words has the mean of their vectors. All vectors that the model computes for a word have the
    same length, a mean square of 1, so that frequent words do not dominate in ``Doc.vector`` and in layers. The
    pipeline's ``strings`` turn hashes into words. Without a ``model`` there are no vectors.

    The vector of a word that the model knows cannot be changed. A word that it does not know can get one, as spaCy does
    for merged tokens: `add` puts it into a row after the model's rows, and it is saved with them.
    """

    attr = ORTH
    mode = "morphological"

    def __init__(self, *, strings: Any = None, model: Any = None) -> None:
        self.strings = StringStore() if strings is None else strings
        # when a vocabulary is unpickled, it passes a store of strings to its vectors, and then replaces it
        self._pickled_strings: Any = None
        self.name: str | None = "tacenda_vectors"
        self._ops: Any = NumpyOps()
        # a weak reference to the pipeline, once there is one
        self._nlp: Callable[[], Any] = lambda: None
        self.version = 0  # changes whenever a word gets or loses its row
        self.clear()
        if model is not None:
            self._set_model(model)

    def clear(self) -> None:
        """Remove the model and all vectors."""
        self.model: Any = None
        # whether the layers that read the vectors have been compared with the model
        self._compared = False
        self._survey: Any = None  # of the tokens that layers ask for
        # the row of every listed word, by its hash, in the order of the rows
        self.key2row: dict[int, int] = {}
        self.version += 1
        self._n_fitted = 0  # rows of the model's vocabulary; after them come words that were added
        # vectors of words without a row, in host memory; zeros for a word that has none
        self._cached_vectors: dict[int, Any] = {}
        # (rows, width) float32, where ``_ops`` has its arrays
        self.data: Any = self._ops.alloc2f(0, 0)

    def _set_model(self, model: Any) -> None:
        """Set a fitted model, and compute the table of its vocabulary."""
        from tacenda.spacy.documents import TokenSurvey

        self.clear()
        # a copy, because a later fit of the same object would change its vectors, but not the table
        self.model = copy(model)
        self._survey = TokenSurvey(model, "the word vectors")
        vocabulary = model.vocabulary
        words = [w for w in vocabulary.words if w.strip() and not vocabulary.is_reserved(w)]
        # the words go into the store of strings, so that the keys of `most_similar` can be read
        self.key2row = {int(self.strings.add(word)): row for row, word in enumerate(words)}
        self._n_fitted = len(self.key2row)
        self.data = self._ops.asarray2f(model.scaled_vectors(words), dtype="float32")
        # the model prepares for words outside its vocabulary now and not at the first text
        model.scaled_vectors([_UNKNOWN_WORD])

    # -- the pipeline that reads the vectors ----------------------------------------------------------

    def serve(self, nlp: Any) -> None:
        """Record ``nlp`` as the pipeline that reads these vectors, unless another one does."""
        if self._nlp() is None:
            self._nlp = weakref.ref(nlp)

    def compare_readers(self) -> None:
        """Warn if layers of the pipeline were trained on the vectors of another model."""
        nlp = self._nlp()
        readings = [] if nlp is None else list(find_static_readings(nlp.components))
        self._compared = bool(readings) and compare_and_record(
            readings, self.model, "the word vectors"
        )

    # -- the table, as ``spacy.vectors.Vectors`` has it -----------------------------------------------

    def find(self, *, key: Any = None, keys: Any = None, row: Any = None, rows: Any = None) -> Any:
        """Return rows of keys (-1 for a word without a row), or keys of rows, as ``Vectors.find`` does."""
        if sum(each is not None for each in (key, keys, row, rows)) != 1:
            raise ConfigurationError("find takes one of key, keys, row and rows: give exactly one")
        if key is not None:
            return self._find_row(key)
        if keys is not None:
            return self._ops.xp.asarray([self._find_row(k) for k in keys], dtype="i")
        listed = list(self.key2row)
        if row is not None:
            return listed[row]
        return self._ops.xp.asarray([listed[r] for r in rows], dtype="uint64")

    def most_similar(
        self, queries: Any, *, batch_size: int = 1024, n: int = 1, sort: bool = True
    ) -> tuple[Any, Any, Any]:
        """Return keys, rows and cosines (queries, n) of the nearest words with a row, as ``Vectors.most_similar``.

        They are sorted, nearest first, whatever ``sort`` is.
        """
        xp = self._ops.xp
        table = self._scale_to_unit(self.data[: self.n_keys])
        n = min(n, len(table))
        rows, scores = (xp.zeros((len(queries), n), dtype=kind) for kind in ("i", "f"))
        for i in range(0, len(queries), batch_size):
            part = slice(i, i + batch_size)
            cosines = self._scale_to_unit(queries[part]) @ table.T
            rows[part] = xp.argsort(-cosines, axis=1)[:, :n]
            scores[part] = xp.take_along_axis(cosines, rows[part], axis=1)
        keys = xp.asarray(list(self.key2row), dtype="uint64")[rows]
        return keys, rows, xp.around(scores, decimals=4)

    def _scale_to_unit(self, rows: Any) -> Any:
        """Return rows (n, width) scaled to length 1; rows of zeros stay zeros."""
        xp = self._ops.xp
        rows = xp.asarray(rows, dtype="f")
        return rows / xp.maximum(xp.linalg.norm(rows, axis=1, keepdims=True), 1e-12)

    @property
    def shape(self) -> tuple[int, int]:
        """The rows and columns of ``data``."""
        return tuple(self.data.shape)

    @property
    def size(self) -> int:
        """The number of entries of ``data``."""
        return int(self.data.size)

    @property
    def vectors_length(self) -> int:
        """The number of columns."""
        return self.shape[1]

    @property
    def n_keys(self) -> int:
        """The number of words with a row."""
        return len(self.key2row)

    @property
    def is_full(self) -> bool:
        """Always False, because `add` makes room for another word."""
        return False

    def keys(self) -> Any:
        """Return the hashes of the words with a row, in their order."""
        return self.key2row.keys()

    def values(self) -> Iterator[Any]:
        """Yield the vectors (width,) of the words with a row, in the order of `keys`."""
        return iter(self.data[: self.n_keys])

    def items(self) -> Iterator[tuple[int, Any]]:
        """Yield the hash and the vector (width,) of every word with a row."""
        return zip(self.key2row, self.values(), strict=True)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[int]:
        return iter(self.key2row)

    def to_ops(self, ops: Any) -> None:
        """Move the table, and all arrays that `get_batch` will return, to a device."""
        self.data = ops.asarray2f(self._ops.to_numpy(self.data), dtype="float32")
        self._ops = ops

    # -- one word, or many -------------------------------------------------------------------------

    def _find_row(self, key: Any) -> int:
        """Return the row of a string or hash, or -1."""
        return self.key2row.get(int(get_string_id(key)), -1)

    def _find_text(self, key: Any) -> str:
        """Return the text of a string or hash; an empty string for a hash that no store has."""
        if isinstance(key, str):
            return key
        for strings in (self.strings, self._pickled_strings):
            if strings is not None and int(key) in strings:
                return str(strings[int(key)])
        return ""

    def __contains__(self, key: Any) -> bool:
        """Return whether a word has a vector, because it has a row or the model knows one of its morphemes."""
        return self._find_row(key) >= 0 or bool(self._impute([key]).any())

    def __getitem__(self, key: Any) -> Any:
        """Return the vector of a string or hash (width,). Raises KeyError where `__contains__` says no."""
        row = self._find_row(key)
        if row >= 0:
            return self.data[row].copy()
        [vector] = self._impute([key])
        if not vector.any():
            raise KeyError(key)
        return self._ops.asarray1f(vector)

    def get_batch(self, keys: Iterable[Any]) -> Any:
        """Return vectors (keys, width) float32; zeros for a word without a vector.

        Raises ConfigurationError for an array of hashes, which is how layers ask, if there is no model.
        """
        if hasattr(keys, "tolist"):
            self._require_model("a layer reads")
            keys = keys.tolist()
        if not self._compared and self.model is not None:
            self.compare_readers()
        listed = list(keys)
        vectors = self._ops.alloc2f(len(listed), self.vectors_length)
        rows = [self._find_row(key) for key in listed]
        seen = [i for i, row in enumerate(rows) if row >= 0]
        vectors[seen] = self.data[[rows[i] for i in seen]]
        unseen = [i for i, row in enumerate(rows) if row < 0]
        if unseen:
            imputed = self._impute([listed[i] for i in unseen])
            vectors[unseen] = self._ops.asarray2f(imputed, dtype="float32")
        if self._survey is not None:  # by now the model has cached what it knows of the words
            self._survey.count(filter(str.strip, map(self._find_text, listed)))
        return vectors

    def _require_model(self, act: str) -> None:
        """Raise ConfigurationError if there is no model; ``act`` is who does what with the vectors."""
        if self.model is None:
            raise ConfigurationError(
                f"{act} the word vectors of the pipeline, which has none: name their model in "
                f'[initialize.before_init] with @callbacks = "{USE}" and source = FOLDER, or, if components are '
                "sourced from a pipeline with word vectors, name that pipeline as [initialize] vectors"
            )

    def _impute(self, keys: list[Any]) -> Any:
        """Return the vectors of words without a row (words, width), from a cache; zeros without a model."""
        if self.model is None:
            return np.zeros((len(keys), self.vectors_length), np.float32)
        cached, ids = self._cached_vectors, [int(get_string_id(key)) for key in keys]
        texts = {
            i: self._find_text(key) for i, key in zip(ids, keys, strict=True) if i not in cached
        }
        # a hash without a text is not cached, because it may get one later
        words = {i: text.split() for i, text in texts.items() if text}
        new = dict(zip(words, self._compute_means(list(words.values())), strict=True))
        zeros = np.zeros(self.vectors_length, np.float32)
        vectors = np.stack([new.get(i, cached.get(i, zeros)) for i in ids])
        if len(cached) + len(new) > _CACHED_WORDS:
            cached = self._cached_vectors = {}  # another one: threads may be reading this one
        cached.update(islice(new.items(), _CACHED_WORDS))
        return vectors

    def _compute_means(self, texts: list[list[str]]) -> Any:
        """Return the mean of the vectors of the words of every text (texts, width); zeros for a text without words."""
        means = np.zeros((len(texts), self.vectors_length), np.float32)
        lengths = np.array([len(text) for text in texts])
        filled = np.flatnonzero(lengths)
        if len(filled):
            vectors = self.model.scaled_vectors([word for text in texts for word in text])
            starts = (np.cumsum(lengths) - lengths)[filled]
            means[filled] = np.add.reduceat(vectors, starts, axis=0) / lengths[filled, None]
        return means

    @contextmanager
    def memory_zone(self, mem: Any = None) -> Iterator[Any]:
        """Remove the words that were added or cached within the zone at its end, for ``nlp.memory_zone``."""
        model, cached, n_keys = self.model, self._cached_vectors, self.n_keys
        self._cached_vectors = {}
        try:
            yield mem
        finally:
            if self.model is model:
                self._cached_vectors = cached
                while self.n_keys > n_keys:
                    self.key2row.popitem()
                    self.version += 1

    # -- words that the model does not know -----------------------------------------------------------

    def add(self, key: Any, *, vector: Any = None, row: Any = None) -> int:
        """Set the vector of a word that the model does not know, and return its row.

        A new word with a vector of zeros gets no row, and -1 is returned. Raises ConfigurationError without a model,
        for a word that has a vector of the model, for a vector of another width or with numbers that are not finite,
        and for ``row``.
        """
        self._require_model("a word cannot be added to")
        if row is not None or vector is None:
            raise ConfigurationError(
                f"the vectors {NAME} choose the row of a new word themselves: give vector, not row"
            )
        vector = self._ops.asarray1f(vector, dtype="float32")
        if vector.shape != (self.vectors_length,) or not self._ops.xp.isfinite(vector).all():
            raise ConfigurationError(
                f"the vectors {NAME} are {self.vectors_length} finite numbers each: give such a vector"
            )
        place = self._find_row(key)
        if place < self._n_fitted and key in self:
            raise ConfigurationError(
                f"the vectors {NAME} of words that the model knows cannot be changed: use spaCy's own vectors instead "
                "(tacenda embed export, then spacy init vectors)"
            )
        if place < 0:
            if not vector.any():
                return -1
            place = self.n_keys
            if place == len(self):
                self.resize((max(100, int(1.3 * len(self))), self.vectors_length))
            self.key2row[int(self.strings.add(key) if isinstance(key, str) else key)] = place
            self.version += 1
        self.data[place] = vector
        return place

    def __setitem__(self, key: Any, vector: Any) -> None:
        """Set the vector of a word, as `add` does."""
        self.add(key, vector=vector)

    def resize(self, shape: tuple[int, int], inplace: bool = False) -> list[tuple[int, int]]:
        """Make room for more words, and return an empty list of removed ones.

        Raises ConfigurationError for another width, or fewer rows than there are words.
        """
        rows, width = shape
        if rows < self.n_keys or width != self.vectors_length:
            raise ConfigurationError(
                f"the vectors {NAME} are {self.n_keys} words of {self.vectors_length} columns and can have more rows, "
                f"but not the shape {tuple(shape)}: use spaCy's own (tacenda embed export, then spacy init vectors)"
            )
        data = self._ops.alloc2f(rows, width)
        data[: self.n_keys] = self.data[: self.n_keys]
        self.data = data
        return []

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MorphologicalVectors):
            return NotImplemented
        return self is other or self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]

    # -- to disk and back --------------------------------------------------------------------------

    def _list_added(self) -> list[tuple[str | int, list[float]]]:
        """Return the words that were added, or the hash of one without a text, each with its vector."""
        added = list(self.key2row.items())[self._n_fitted :]
        return [(self._find_text(key) or key, self.data[row].tolist()) for key, row in added]

    def _load(self, model: bytes | Path, added: Any) -> "MorphologicalVectors":
        """Set a saved model, and add what `_list_added` returned. Raises ArtifactError if that is damaged."""
        self._set_model(load_word_model(model))
        try:
            # older versions saved a dictionary
            for key, vector in added.items() if isinstance(added, dict) else added:
                self.add(key, vector=vector)
        except (AttributeError, TypeError, ValueError) as error:
            raise ArtifactError(f"the vectors of added words are damaged: {error}") from error
        return self

    def to_bytes(self, **kwargs: Any) -> bytes:
        """Return the model and the words that were added to it; no bytes without a model."""
        if self.model is None:
            return b""
        parts = [bytes(self.model.to_artifact().to_bytes()), self._list_added()]
        return _MAGIC_WITH_ADDED + bytes(srsly.msgpack_dumps(parts))

    def from_bytes(self, data: bytes, **kwargs: Any) -> "MorphologicalVectors":
        """Load the model and the added words from the bytes of `to_bytes`, and return the vectors."""
        if not data:
            self.clear()
            return self
        added: Any = []
        if data.startswith(_MAGIC_WITH_ADDED):
            try:
                data, added = srsly.msgpack_loads(data.removeprefix(_MAGIC_WITH_ADDED))
            except (TypeError, ValueError) as error:
                raise ArtifactError(f"the bytes of the vectors are damaged: {error}") from error
        return self._load(data, added)

    def to_disk(self, path: str | Path, **kwargs: Any) -> None:
        """Save into the subfolder ``morphological_vectors`` of ``path``, the folder of the vocabulary.

        Raises ArtifactError if it cannot be written.
        """
        from tacenda import store

        folder = Path(path) / FOLDER
        if self.model is None:
            shutil.rmtree(folder, ignore_errors=True)
            return
        cfg = {"name": self.name, "added": self._list_added()}
        with store.writing(folder, ArtifactError):
            folder.mkdir(parents=True, exist_ok=True)
            self.model.save(folder / "model")
            srsly.write_json(folder / "cfg.json", cfg)

    def from_disk(self, path: str | Path, **kwargs: Any) -> "MorphologicalVectors":
        """Load the model that `to_disk` saved, or none if there was none, and return the vectors."""
        from tacenda.spacy.component import read_cfg

        folder = Path(path) / FOLDER
        if not (folder / "cfg.json").exists():
            self.clear()
            return self
        cfg = read_cfg(folder)
        self.name = cfg.get("name")
        return self._load(folder / "model", cfg.get("added", []))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the store of strings too, which stays the same object as that of a vocabulary pickled with it."""
        strings = self.strings if self._pickled_strings is None else self._pickled_strings
        return _unpickle, (strings, self.name, self.to_bytes())


def _unpickle(strings: Any, name: str | None, data: bytes) -> MorphologicalVectors:
    vectors = MorphologicalVectors(strings=strings).from_bytes(data)
    vectors.name, vectors._pickled_strings = name, strings
    ops = get_current_ops()
    if not isinstance(ops, NumpyOps):
        vectors.to_ops(ops)
    return vectors
