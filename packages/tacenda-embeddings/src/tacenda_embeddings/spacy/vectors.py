"""``tacenda.MorphologicalVectors.v1``: word vectors of a pipeline, also for out-of-vocabulary words.

With these in ``nlp.vocab``, ``Token.vector``, ``similarity`` and ``StaticVectors`` use a fitted `VarEmbed` or
`SumEmbed`; a word outside its vocabulary has the vector its morphemes predict. Whitespace, and a word without any known
morpheme, have no vector. In a configuration, one section names the model:

    [initialize.before_init]
    @callbacks = "tacenda.use_vectors.v1"
    source = "FOLDER"

This module imports spaCy and what spaCy needs; the model is loaded at need.
"""

import shutil
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import srsly
from spacy.attrs import ORTH
from spacy.strings import StringStore, get_string_id
from spacy.vectors import BaseVectors
from thinc.api import NumpyOps, get_current_ops

from tacenda_embeddings.spacy.training_input import (
    Fingerprint,
    find_static_readings,
    forget_training,
    record_training,
    warn_of_mismatch,
)

NAME = "tacenda.MorphologicalVectors.v1"
USE, CHECK = "tacenda.use_vectors.v1", "tacenda.check_vectors.v1"
FOLDER = "morphological_vectors"

_WITH_ADDED = b"TACENDA VECTORS\x01"  # how the bytes of a model begin that are followed by words that were added
_OUTSIDE = "\ue000" * 8  # letters for private use: no word of any vocabulary

#: Words outside the vocabulary whose vectors are kept; some 15 MB at a width of 100.
_KEPT_WORDS = 20_000


def morphological_vectors() -> Callable[[Any], "MorphologicalVectors"]:
    """Make the factory that ``[nlp.vectors]`` names; the model comes from `use_vectors` or from a saved pipeline."""
    return lambda vocab: MorphologicalVectors(strings=vocab.strings)


def uses_vectors(source: str) -> Callable[[Any], Any]:
    """Make the callback that ``[initialize.before_init]`` names: `use_vectors` with the model in a folder."""

    def before_init(nlp: Any) -> Any:
        """Give the pipeline its vectors, and record them in the layers that will be trained on them."""
        # enabled components are initialized next, and will be trained on these vectors
        readings = list(find_static_readings(nlp.pipeline))
        for _, _, layer, _ in readings:
            forget_training(layer)
        record_training(readings, use_vectors(nlp, source).fingerprint)
        return nlp

    return before_init


def checks_vectors() -> Callable[[Any], Any]:
    """Make the callback that a pipeline with these vectors names in ``[nlp] after_creation``.

    spaCy loads the pipeline of ``[initialize] vectors``, and one that components are sourced from, into the vocabulary
    of another, and reports no more than that it has no vectors (W112) where those are of another kind.
    """

    def after_creation(nlp: Any) -> Any:
        """Tell the vectors which pipeline reads them. Raises ConfigurationError for vectors of another kind."""
        if not isinstance(nlp.vocab.vectors, MorphologicalVectors):
            _fail(
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

    vectors = MorphologicalVectors(strings=nlp.vocab.strings).take(source)
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


def word_model(source: Any) -> Any:
    """Return the fitted model whose vectors `use_vectors` takes; raise what it raises."""
    from tacenda.spacy import sources

    model = sources.load(source, "embedders", "token embeddings", "transform")
    if not hasattr(model, "vectors") or not hasattr(model, "pieces"):
        _fail(
            f"{getattr(model, 'name', type(model).__name__)!r} has no vectors of single words: use a varembed or "
            "sumembed for the vectors of a pipeline"
        )
    return model


def _fail(message: str) -> NoReturn:
    from tacenda.errors import ConfigurationError

    raise ConfigurationError(message)


class MorphologicalVectors(BaseVectors):
    """Vectors of a fitted model, by the hash of a token's text.

    ``data`` has a row for each word of the model's vocabulary, and ``key2row`` gives its place. A word without a row
    has a vector too, unless the model knows none of its morphemes: ``vectors[key]`` and `get_batch` make it. A token
    merged from several words has the mean of their vectors. All vectors have one length, a mean square of 1, so that
    frequent words do not drown out the others in ``Doc.vector`` and in layers. The pipeline's ``strings`` turn hashes
    into words; without a ``model`` there are no vectors.

    The vector of a word that the model knows cannot be changed. A word that it does not know can be given one, as spaCy
    does for merged tokens: `add` puts it into a row after the model's rows, and it is saved with them.
    """

    attr = ORTH
    mode = "morphological"

    def __init__(self, *, strings: Any = None, model: Any = None) -> None:
        self.strings = StringStore() if strings is None else strings
        # an unpickled vocabulary hands its vectors a store of strings that it then replaces
        self._pickled_strings: Any = None
        self.name: str | None = "tacenda_vectors"
        self._ops: Any = NumpyOps()
        self._nlp: Callable[[], Any] = _return_none
        self.clear()
        if model is not None:
            self._set(model)

    def clear(self) -> None:
        """Have no model, and no vectors."""
        self.model: Any = None
        self._fingerprint: Fingerprint | None = None
        self._compared = False  # whether the layers that read the vectors were trained on these
        self._survey: Any = None  # of the tokens that layers ask for, until it is over
        # the row of every listed word, by its hash, in the order of the rows
        self.key2row: dict[int, int] = {}
        self._n_fitted = 0  # rows of the model's vocabulary; after them come words that were added
        # vectors of words without a row, in host memory; zeros for a word that has none
        self._others: dict[int, Any] = {}
        # (rows, width) float32, where ``_ops`` has its arrays
        self.data: Any = self._ops.alloc2f(0, 0)

    def take(self, source: Any) -> "MorphologicalVectors":
        """Take a model, or the one in a folder; raise what `use_vectors` raises."""
        self._set(word_model(source))
        return self

    def _set(self, model: Any) -> None:
        """Make a table of the vocabulary of a model."""
        from tacenda.spacy.documents import TokenSurvey

        self.clear()
        # its options and what it has learned so far: a later fit of the same object makes other vectors than these
        self.model = copy(model)
        self._survey = TokenSurvey(model, "the word vectors")
        vocabulary = model.vocabulary
        words = [w for w in vocabulary.words if w.strip() and not vocabulary.is_reserved(w)]
        # the words go into the store of strings, so that the keys of `most_similar` can be read
        self.key2row = {int(self.strings.add(word)): row for row, word in enumerate(words)}
        self._n_fitted = len(self.key2row)
        self.data = self._ops.asarray2f(model.scaled_vectors(words), dtype="float32")
        # what a model prepares for the first word outside its vocabulary belongs to loading it, not to the first text
        model.scaled_vectors([_OUTSIDE])

    # -- the pipeline that reads the vectors ----------------------------------------------------------

    @property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the model."""
        if self._fingerprint is None:
            self._fingerprint = Fingerprint.of(self.model)
        return self._fingerprint

    def serve(self, nlp: Any) -> None:
        """Take ``nlp`` for the pipeline that reads these vectors, unless another one does."""
        if self._nlp() is None:
            self._nlp = weakref.ref(nlp)

    def compare_readers(self) -> None:
        """Warn if layers of the pipeline were trained on the vectors of another model."""
        nlp = self._nlp()
        readings = [] if nlp is None else list(find_static_readings(nlp.components))
        self._compared = bool(readings) and warn_of_mismatch(
            readings, self.fingerprint, self.model, "the word vectors"
        )

    # -- the table, as ``spacy.vectors.Vectors`` has it -----------------------------------------------

    def find(self, *, key: Any = None, keys: Any = None, row: Any = None, rows: Any = None) -> Any:
        """Return rows of keys (-1 for a word without one), or keys of rows, as ``Vectors.find``."""
        if sum(each is not None for each in (key, keys, row, rows)) != 1:
            _fail("find takes one of key, keys, row and rows: give exactly one")
        if key is not None:
            return self._row(key)
        if keys is not None:
            return self._ops.xp.asarray([self._row(each) for each in keys], dtype="i")
        by_row = list(self.key2row)
        if row is not None:
            return by_row[row]
        return self._ops.xp.asarray([by_row[each] for each in rows], dtype="uint64")

    def most_similar(
        self, queries: Any, *, batch_size: int = 1024, n: int = 1, sort: bool = True
    ) -> tuple[Any, Any, Any]:
        """Return keys, rows and cosines (queries, n) of the nearest listed words, as ``Vectors.most_similar``."""
        xp = self._ops.xp
        table = self.data[: self.n_keys]
        table = table / xp.maximum(xp.linalg.norm(table, axis=1, keepdims=True), 1e-12)
        n = min(n, len(table))
        rows, scores = [], []
        for i in range(0, len(queries), batch_size):
            part = xp.asarray(queries[i : i + batch_size], dtype="f")
            part = part / xp.maximum(xp.linalg.norm(part, axis=1, keepdims=True), 1e-12)
            cosines = part @ table.T
            best = xp.argsort(-cosines, axis=1)[:, :n]
            rows.append(best)
            scores.append(xp.take_along_axis(cosines, best, axis=1))
        found = xp.vstack(rows) if rows else xp.zeros((0, n), dtype="i")
        keys = xp.asarray(list(self.key2row), dtype="uint64")[found]
        best_scores = xp.vstack(scores) if scores else xp.zeros((0, n), dtype="f")
        return keys, found, xp.around(best_scores, decimals=4)

    @property
    def shape(self) -> tuple[int, int]:
        """The rows and columns of ``data``."""
        return tuple(self.data.shape)

    @property
    def size(self) -> int:
        """The count of numbers in ``data``."""
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
        """False: there is room for another word, because `add` makes it."""
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
        """Move the table, and all that `get_batch` will give, to a device."""
        self.data = ops.asarray2f(self._ops.to_numpy(self.data), dtype="float32")
        self._ops = ops

    # -- one word, or many -------------------------------------------------------------------------

    def _row(self, key: Any) -> int:
        """Return the row of a string or hash, or -1."""
        return self.key2row.get(int(get_string_id(key)), -1)

    def _text(self, key: Any) -> str:
        """Return the text of a string or hash; an empty one for a hash that no store has."""
        if isinstance(key, str):
            return key
        for strings in (self.strings, self._pickled_strings):
            if strings is not None and int(key) in strings:
                return str(strings[int(key)])
        return ""

    def __contains__(self, key: Any) -> bool:
        """Return whether there is a vector: for a word whose morphemes, or some of them, the model knows."""
        if self._row(key) >= 0:
            return True
        return self.model is not None and bool(self._vectors_of([key])[0].any())

    def __getitem__(self, key: Any) -> Any:
        """Return the vector of a string or hash (width,). Raises KeyError where `__contains__` says no."""
        row = self._row(key)
        if row >= 0:
            return self.data[row].copy()
        if key not in self:
            raise KeyError(key)
        return self._ops.asarray1f(self._vectors_of([key])[0])

    def get_batch(self, keys: Iterable[Any]) -> Any:
        """Return vectors (keys, width) float32; zeros for what has none.

        Raises ConfigurationError for an array of hashes, which is how layers ask, if there is no model.
        """
        if self.model is None and hasattr(keys, "tolist"):
            _fail(
                "a layer reads the word vectors of the pipeline, which has none: name their model in "
                f'[initialize.before_init] with @callbacks = "{USE}" and source = FOLDER, or, if components are '
                "sourced from a pipeline with word vectors, name that pipeline as [initialize] vectors"
            )
        if not self._compared and self.model is not None:
            self.compare_readers()
        listed = keys.tolist() if hasattr(keys, "tolist") else list(keys)
        if survey := self._survey:  # another thread may end it meanwhile
            survey.count(filter(str.strip, map(self._text, listed)))
            if survey.is_over:
                self._survey = None
        found = self._ops.alloc2f(len(listed), self.vectors_length)
        rows = [self._row(key) for key in listed]
        seen = [i for i, row in enumerate(rows) if row >= 0]
        found[seen] = self.data[[rows[i] for i in seen]]
        unseen = [i for i, row in enumerate(rows) if row < 0]
        if self.model is not None and unseen:
            given = self._vectors_of([listed[i] for i in unseen])
            found[unseen] = self._ops.asarray2f(given, dtype="float32")
        return found

    def _vectors_of(self, keys: list[Any]) -> Any:
        """Return the vectors of words without a row (words, width), made once for every word."""
        kept, ids = self._others, [int(get_string_id(key)) for key in keys]
        texts = {i: self._text(key) for i, key in zip(ids, keys, strict=True) if i not in kept}
        if len(kept) + len(texts) > _KEPT_WORDS:
            kept = {}
            texts = {i: self._text(key) for i, key in zip(ids, keys, strict=True)}
        # a hash without a text may get one later
        new = {i: text.split() for i, text in texts.items() if text}
        if new:
            kept.update(zip(new, self._make(list(new.values())), strict=True))
            self._others = kept
        nothing = np.zeros(self.vectors_length, np.float32)
        return np.stack([kept.get(i, nothing) for i in ids])

    def _make(self, texts: list[list[str]]) -> Any:
        """Return the mean of the vectors of the words of every text (texts, width), zeros for one without words."""
        made = np.zeros((len(texts), self.vectors_length), np.float32)
        lengths = np.array([len(text) for text in texts])
        full = np.flatnonzero(lengths)
        if len(full):
            vectors = self.model.scaled_vectors([word for text in texts for word in text])
            starts = (np.cumsum(lengths) - lengths)[full]
            made[full] = np.add.reduceat(vectors, starts, axis=0) / lengths[full, None]
        return made

    @contextmanager
    def memory_zone(self, mem: Any = None) -> Iterator[Any]:
        """Forget at its end the words that came within it, as ``nlp.memory_zone`` asks of a vocabulary's parts."""
        model, before, n_keys = self.model, self._others, self.n_keys
        self._others = {}
        try:
            yield mem
        finally:
            if self.model is model:
                self._others = before
                while self.n_keys > n_keys:
                    self.key2row.popitem()

    # -- words that the model does not know -----------------------------------------------------------

    def add(self, key: Any, *, vector: Any = None, row: Any = None) -> int:
        """Give a word that has no vector one, and return its row, or -1 for a vector of zeros, which gives it none.

        Raises ConfigurationError for a word that has a vector, which is what the model says, and for ``row``.
        """
        if row is not None or vector is None:
            _fail(
                f"the vectors {NAME} choose the row of a new word themselves: give vector, not row"
            )
        given = self._ops.asarray1f(vector, dtype="float32")
        if given.shape != (self.vectors_length,):
            _fail(
                f"the vectors {NAME} have {self.vectors_length} columns, not {given.shape}: give one of that width"
            )
        place = self._row(key)
        if place < self._n_fitted and key in self:
            _fail(
                f"the vectors {NAME} of words that the model knows cannot be changed: use spaCy's own vectors instead "
                "(tacenda embed export, then spacy init vectors)"
            )
        if place < 0 and not given.any():
            return -1
        if place < 0:
            place = self.n_keys
            if place == len(self):
                self.resize((max(100, int(1.3 * len(self))), self.vectors_length))
            self.key2row[int(self.strings.add(key) if isinstance(key, str) else key)] = place
        self.data[place] = given
        return place

    def __setitem__(self, key: Any, vector: Any) -> None:
        """Do what `add` does."""
        self.add(key, vector=vector)

    def resize(self, shape: tuple[int, int], inplace: bool = False) -> list[tuple[int, int]]:
        """Make room for more words, and return no removed ones. Raises ConfigurationError for less room."""
        rows, width = shape
        if rows < self.n_keys or width != self.vectors_length:
            _fail(
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

    def _list_added(self) -> dict[str, list[float]]:
        """Return the vectors of words that were added, by the word."""
        added = list(self.key2row.items())[self._n_fitted :]
        return {self._text(key): self.data[row].tolist() for key, row in added}

    def _add_all(self, added: dict[str, list[float]]) -> None:
        for word, vector in added.items():
            self.add(word, vector=vector)

    def to_bytes(self, **kwargs: Any) -> bytes:
        """Return the model as an artifact in one piece, and words that were added after it; empty without a model."""
        if self.model is None:
            return b""
        added = self._list_added()
        artifact = bytes(self.model.to_artifact().to_bytes())
        return _WITH_ADDED + bytes(srsly.msgpack_dumps([artifact, added])) if added else artifact

    def from_bytes(self, data: bytes, **kwargs: Any) -> "MorphologicalVectors":
        """Take back what `to_bytes` gave, which may be no model."""
        if not data:
            self.clear()
            return self
        if data.startswith(_WITH_ADDED):
            artifact, added = srsly.msgpack_loads(data.removeprefix(_WITH_ADDED))
            self.take(artifact)._add_all(added)
        else:
            self.take(data)
        return self

    def to_disk(self, path: str | Path, **kwargs: Any) -> None:
        """Save into the folder ``morphological_vectors`` of the vocabulary's."""
        folder = Path(path) / FOLDER
        if self.model is None:
            shutil.rmtree(folder, ignore_errors=True)
            return
        folder.mkdir(parents=True, exist_ok=True)
        self.model.save(folder / "model")
        added = self._list_added()
        srsly.write_json(
            folder / "cfg.json", {"name": self.name, **({"added": added} if added else {})}
        )

    def from_disk(self, path: str | Path, **kwargs: Any) -> "MorphologicalVectors":
        """Load what `to_disk` saved; nothing where there is nothing."""
        from tacenda.spacy.component import read_cfg

        folder = Path(path) / FOLDER
        if (folder / "cfg.json").exists():
            cfg = read_cfg(folder)
            self.take(folder / "model")._add_all(cfg.get("added", {}))
            self.name = cfg.get("name")
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the store of strings, which the vocabulary pickles too, so that both stay one."""
        strings = self.strings if self._pickled_strings is None else self._pickled_strings
        return _unpickle, (strings, self.name, self.to_bytes())


def _return_none() -> None:
    """Stand for a pipeline that is not there."""


def _unpickle(strings: Any, name: str | None, data: bytes) -> MorphologicalVectors:
    vectors = MorphologicalVectors(strings=strings).from_bytes(data)
    vectors.name, vectors._pickled_strings = name, strings
    ops = get_current_ops()
    if not isinstance(ops, NumpyOps):
        vectors.to_ops(ops)
    return vectors
