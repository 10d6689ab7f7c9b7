"""``tacenda.MorphologicalVectors.v1``: the vectors of a pipeline, for every word there can be.

With these in ``nlp.vocab``, ``Token.vector``, ``similarity`` and ``StaticVectors`` use a fitted `VarEmbed` or
`SumEmbed`; a word outside its vocabulary has the vector its morphemes predict, so no word is without one
but whitespace. In a configuration they take one section, which names the model:

    [initialize.before_init]
    @callbacks = "tacenda.use_vectors.v1"
    source = "FOLDER"

This module imports spaCy, thinc and the standard library; the model is loaded at need.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import srsly
from spacy.attrs import ORTH
from spacy.strings import StringStore, get_string_id
from spacy.vectors import BaseVectors
from thinc.api import NumpyOps, get_current_ops

NAME = "tacenda.MorphologicalVectors.v1"
USE, CHECK = "tacenda.use_vectors.v1", "tacenda.check_vectors.v1"
FOLDER = "morphological_vectors"

_OUTSIDE = "\ue000" * 8  # letters for private use: no word of any vocabulary

#: Words outside the vocabulary whose vectors are kept.
_KEPT_WORDS = 100_000


def morphological_vectors() -> Callable[[Any], "MorphologicalVectors"]:
    """Make the factory that ``[nlp.vectors]`` names; the model comes from `use_vectors` or from a saved pipeline."""
    return lambda vocab: MorphologicalVectors(strings=vocab.strings)


def uses_vectors(source: str) -> Callable[[Any], Any]:
    """Make the callback that ``[initialize.before_init]`` names: `use_vectors` with the model in a folder."""

    def before_init(nlp: Any) -> Any:
        use_vectors(nlp, source)
        return nlp

    return before_init


def checks_vectors() -> Callable[[Any], Any]:
    """Make the callback that a pipeline with these vectors names in ``[nlp] after_creation``.

    spaCy loads the pipeline of ``[initialize] vectors``, and one that components are sourced from, into the vocabulary
    of another, and reports no more than that it has no vectors (W112) where those are of another kind.
    """

    def after_creation(nlp: Any) -> Any:
        if not isinstance(nlp.vocab.vectors, MorphologicalVectors):
            _fail(
                "a pipeline whose word vectors are those of a model is loaded into one that has no room for them: "
                f'in the configuration that names it, add [nlp.vectors] with @vectors = "{NAME}", or name the model '
                f'itself, in [initialize.before_init] with @callbacks = "{USE}" and source = FOLDER instead '
                "of [initialize] vectors"
            )
        return nlp

    return after_creation


def use_vectors(nlp: Any, source: Any) -> "MorphologicalVectors":
    """Make a fitted model the vectors of a pipeline, and of what it is saved as.

    ``source`` is a fitted `VarEmbed` or `SumEmbed`, or the folder of one. Raises ConfigurationError for another
    model, TacendaError for one that cannot be read.
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
    return vectors


def word_model(source: Any) -> Any:
    """Return the fitted model whose vectors `use_vectors` takes; raise what it raises."""
    from tacenda.spacy import sources

    model = sources.load(source, "embedders", "token embeddings", "transform")
    if not hasattr(model, "vectors") or not hasattr(model, "pieces"):
        _fail(
            f"{getattr(model, 'name', type(model).__name__)!r} gives a word no vector of its own outside "
            "a sentence: the vectors of a pipeline are made of varembed or sumembed"
        )
    return model


def _fail(message: str) -> NoReturn:
    from tacenda.errors import ConfigurationError

    raise ConfigurationError(message)


class MorphologicalVectors(BaseVectors):
    """Vectors of a fitted model, by the hash of a token's text.

    Rows of ``data`` are those of the model's vocabulary; ``key2row`` says which word has which. A word that
    has no row has a vector all the same: ``vectors[key]`` and `get_batch` make it. All are of one length, a
    mean square of 1, so that frequent words do not drown out the others in ``Doc.vector`` and in layers.
    ``strings``, those of the pipeline, turn hashes into words; without a ``model`` there is no vector.
    """

    attr = ORTH
    mode = "morphological"
    is_full = True

    def __init__(self, *, strings: Any = None, model: Any = None) -> None:
        self.strings = StringStore() if strings is None else strings
        # an unpickled vocabulary hands its vectors a store of strings that it then replaces
        self._pickled_strings: Any = None
        self.name: str | None = "tacenda_vectors"
        self.model: Any = None
        self.key2row: dict[int, int] = {}  # the row of every listed word, by its hash
        self._others: dict[str, Any] = {}  # vectors of words outside the vocabulary, as they came
        self._ops: Any = NumpyOps()
        # (rows, width) float32, where ``_ops`` has its arrays
        self.data: Any = self._ops.alloc2f(0, 0)
        if model is not None:
            self._set(model)

    def take(self, source: Any) -> "MorphologicalVectors":
        """Take a model, or the one in a folder; raise what `use_vectors` raises."""
        self._set(word_model(source))
        return self

    def _set(self, model: Any) -> None:
        """Make a table of the vocabulary of a model."""
        from tacenda.vocabulary import reserved

        self.model = model
        special = reserved(model.vocabulary.oov)
        words = [word for word in model.vocabulary.words if word.strip() and word not in special]
        # the words go into the store of strings, so that the keys of `most_similar` can be read
        self.key2row = {int(self.strings.add(word)): row for row, word in enumerate(words)}
        self._others = {}
        self.data = self._ops.asarray2f(model.scaled_vectors(words), dtype="float32")
        # what a model prepares for the first word outside its vocabulary belongs to loading it, not to the first text
        model.scaled_vectors([_OUTSIDE])

    # -- the table, as ``spacy.vectors.Vectors`` has it -----------------------------------------------

    def find(self, *, key: Any = None, keys: Any = None, row: Any = None, rows: Any = None) -> Any:
        """Return rows of keys (-1 for a word outside the vocabulary), or keys of rows, as ``Vectors.find``."""
        if key is not None:
            return self.key2row.get(int(get_string_id(key) if isinstance(key, str) else key), -1)
        if keys is not None:
            return self._ops.xp.asarray([self.find(key=each) for each in keys], dtype="i")
        by_row = list(self.key2row)
        if row is not None:
            return by_row[row]
        return self._ops.xp.asarray([by_row[each] for each in rows], dtype="uint64")

    def most_similar(
        self, queries: Any, *, batch_size: int = 1024, n: int = 1, sort: bool = True
    ) -> tuple[Any, Any, Any]:
        """Return keys, rows and cosines (queries, n) of the nearest listed words, as ``Vectors.most_similar``."""
        xp = self._ops.xp
        table = self.data / xp.maximum(xp.linalg.norm(self.data, axis=1, keepdims=True), 1e-12)
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

    def keys(self) -> Any:
        """Return the hashes of the words with a row, in their order."""
        return self.key2row.keys()

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[int]:
        return iter(self.key2row)

    def to_ops(self, ops: Any) -> None:
        """Move the table, and all that `get_batch` will give, to a device."""
        self.data = ops.asarray2f(self._ops.to_numpy(self.data), dtype="float32")
        self._ops = ops

    # -- one word, or many -------------------------------------------------------------------------

    def _word(self, key: Any) -> str | None:
        """Return the word of a string or hash; None for whitespace, or a hash that no store has."""
        if isinstance(key, str):
            return key if key.strip() else None
        for strings in (self.strings, self._pickled_strings):
            if strings is not None and int(key) in strings:
                return self._word(str(strings[int(key)]))
        return None

    def __contains__(self, key: Any) -> bool:
        """Return whether there is a vector: for every word, but not for whitespace."""
        return self.model is not None and self._word(key) is not None

    def __getitem__(self, key: Any) -> Any:
        """Return the vector of a string or hash (width,). Raises KeyError where `__contains__` says no."""
        if key not in self:
            raise KeyError(key)
        return self.get_batch([key])[0]

    def get_batch(self, keys: Iterable[Any]) -> Any:
        """Return vectors (keys, width) float32; zeros for what is no word."""
        listed = keys.tolist() if hasattr(keys, "tolist") else list(keys)
        found = self._ops.alloc2f(len(listed), self.vectors_length)
        rows = [self.find(key=key) for key in listed]
        seen = [i for i, row in enumerate(rows) if row >= 0]
        found[seen] = self.data[[rows[i] for i in seen]]
        unseen = [(i, self._word(listed[i])) for i, row in enumerate(rows) if row < 0]
        places = [i for i, word in unseen if word is not None]
        if self.model is not None and places:
            given = self._vectors_of([word for _, word in unseen if word is not None])
            found[places] = self._ops.asarray2f(given, dtype="float32")
        return found

    def _vectors_of(self, words: list[str]) -> Any:
        """Return the vectors of words outside the vocabulary (words, width), made once for every word."""
        kept = self._others
        new = list(dict.fromkeys(word for word in words if word not in kept))
        if len(kept) + len(new) > _KEPT_WORDS:
            kept, new = {}, list(dict.fromkeys(words))
        if new:
            kept.update(zip(new, self.model.scaled_vectors(new), strict=True))
            self._others = kept
        return self._ops.xp.stack([self._ops.asarray1f(kept[word]) for word in words])

    # -- read-only ----------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MorphologicalVectors):
            return NotImplemented
        return self is other or self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]

    def add(self, key: Any, *, vector: Any = None, row: Any = None) -> int:
        """Refuse: these vectors are what a model says, and nothing else."""
        _fail(
            f"the vectors {NAME} cannot be changed word by word: use spaCy's own "
            "(tacenda embed export, then spacy init vectors)"
        )

    def resize(self, shape: tuple[int, int], inplace: bool = False) -> Any:
        """Refuse, as `add` does."""
        return self.add(None)

    # -- to disk and back --------------------------------------------------------------------------

    def to_bytes(self, **kwargs: Any) -> bytes:
        """Return the model as an artifact in one piece; empty without one."""
        return b"" if self.model is None else bytes(self.model.to_artifact().to_bytes())

    def from_bytes(self, data: bytes, **kwargs: Any) -> "MorphologicalVectors":
        """Take back what `to_bytes` gave, which may be no model."""
        if data:
            return self.take(data)
        self.model, self.key2row, self._others = None, {}, {}
        self.data = self._ops.alloc2f(0, 0)
        return self

    def to_disk(self, path: str | Path, **kwargs: Any) -> None:
        """Save into the folder ``morphological_vectors`` of the vocabulary's."""
        folder = Path(path) / FOLDER
        if self.model is None:
            shutil.rmtree(folder, ignore_errors=True)
            return
        folder.mkdir(parents=True, exist_ok=True)
        self.model.save(folder / "model")
        srsly.write_json(folder / "cfg.json", {"name": self.name})

    def from_disk(self, path: str | Path, **kwargs: Any) -> "MorphologicalVectors":
        """Load what `to_disk` saved; nothing where there is nothing."""
        from tacenda.spacy.component import read_cfg

        folder = Path(path) / FOLDER
        if (folder / "cfg.json").exists():
            self.take(folder / "model")
            self.name = read_cfg(folder).get("name")
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the store of strings, which the vocabulary pickles too, so that both stay one."""
        strings = self.strings if self._pickled_strings is None else self._pickled_strings
        return _unpickle, (strings, self.name, self.to_bytes())


def _unpickle(strings: Any, name: str | None, data: bytes) -> MorphologicalVectors:
    vectors = MorphologicalVectors(strings=strings).from_bytes(data)
    vectors.name, vectors._pickled_strings = name, strings
    ops = get_current_ops()
    if not isinstance(ops, NumpyOps):
        vectors.to_ops(ops)
    return vectors
