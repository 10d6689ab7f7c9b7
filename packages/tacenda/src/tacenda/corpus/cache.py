"""A corpus in a folder: ``.npy`` arrays in a sub-folder, and ``corpus.json``, which names it.

The manifest is written last, as `tacenda.store` does it: a build that is killed leaves the corpus that was there
before, and a sub-folder that nothing names and the next build removes.
"""

import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tacenda import store
from tacenda.corpus.storage import PASS_ITEMS, load_array, writing
from tacenda.corpus.word_ids import Selection
from tacenda.errors import ArtifactError, CorpusError
from tacenda.offsets import checked_offsets
from tacenda.vocabulary import Vocabulary
from tacenda.word_classes import CLASSES

MANIFEST: Final = "corpus.json"
FORMAT: Final = "tacenda-corpus"
VERSION: Final = 1
PREFIX: Final = "build-"
_BUILD_VERSION = 1  # raise it when the same sources and settings come to give another corpus


@dataclass(frozen=True)
class Manifest:
    """What ``corpus.json`` says."""

    data: str  # the sub-folder of the arrays
    n_tokens: int
    n_sentences: int
    n_types: int
    n_text_bytes: int
    vocabulary: dict[str, Any]  # Vocabulary.config_dict()
    origin: dict[str, Any]  # Corpus.origin
    fingerprint: str | None  # of sources and settings; None where they cannot be compared
    format: str = FORMAT
    version: int = VERSION


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a corpus folder; CorpusError if there is none that this release reads."""
    path = folder / MANIFEST
    if not path.is_file():
        raise CorpusError(
            f"{folder} holds no corpus ({MANIFEST} is missing); "
            "give a folder that was the cache= of Corpus.from_text"
        )
    try:
        entries = store.read_json(path)
    except (ValueError, OSError) as error:
        raise CorpusError(
            f"{path} cannot be read ({error}); remove {folder} and build the corpus again"
        ) from error
    if not isinstance(entries, dict) or entries.get("format") != FORMAT:
        raise CorpusError(
            f"{path} does not describe a corpus; give a folder made by Corpus.from_text"
        )
    if entries.get("version") != VERSION:
        raise CorpusError(
            f"{path} has format version {entries.get('version')!r}, this release reads {VERSION}; "
            "update tacenda, or build the corpus in another folder"
        )
    return _checked(entries, path)


def _checked(entries: dict[str, Any], path: Path) -> Manifest:
    hints = get_type_hints(Manifest)
    for name, hint in hints.items():
        kind = str if name == "fingerprint" else get_origin(hint) or hint
        value = entries.get(name, ...)
        sound = type(value) is kind or (name == "fingerprint" and value is None)
        if not sound or (kind is int and value < 0):
            raise CorpusError(
                f"{path} is damaged at {name!r}; remove {path.parent} and build the corpus again"
            )
    manifest = Manifest(**{name: entries[name] for name in hints})
    # the name of a sub-folder and nothing else: no way out of the corpus's own folder
    if not manifest.data.startswith(PREFIX) or set(manifest.data) & set("/\\:\0"):
        raise CorpusError(
            f"{path} names the folder {manifest.data!r}, which no corpus has; build it again"
        )
    return manifest


class Stored(NamedTuple):
    """An opened corpus."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    vocabulary: Vocabulary
    manifest: Manifest


@contextmanager
def new_data(folder: Path) -> Iterator[Path]:
    """Yield a new sub-folder for the arrays of a corpus, which stays if `commit` writes a manifest that names it.

    Raises CorpusError if the folder is a file, or holds something that is not ours.
    """
    if folder.exists() and not folder.is_dir():
        raise CorpusError(f"the cache {folder} is a file; give a folder")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    strange = sorted(p.name for p in folder.iterdir() if not _is_ours(p.name))
    if strange:
        raise CorpusError(
            f"the cache folder {folder} holds other files, such as {strange[0]!r}; "
            "give a new or empty folder"
        )
    _sweep(folder)
    try:
        with ExitStack() as stack:
            with writing(folder):
                data = stack.enter_context(store.new_folder(folder, PREFIX))
            yield data
    finally:
        _sweep(folder)


def commit(
    data: Path,
    n_tokens: int,
    n_sentences: int,
    vocabulary: Vocabulary,
    origin: dict[str, Any],
    fingerprint: str | None,
) -> None:
    """Write the vocabulary of a corpus beside its arrays, then the manifest of the folder."""
    arrays = vocabulary.arrays()
    manifest = Manifest(
        data=data.name,
        n_tokens=n_tokens,
        n_sentences=n_sentences,
        n_types=len(vocabulary),
        n_text_bytes=len(arrays["vocabulary.text"]),
        vocabulary=vocabulary.config_dict(),
        origin=origin,
        fingerprint=fingerprint,
    )
    with writing(data):
        for name, array in arrays.items():
            np.save(data / f"{name}.npy", array, allow_pickle=False)
        store.sync(data)
        store.write_file(
            data.parent / MANIFEST, json.dumps(vars(manifest), indent=1).encode("utf-8")
        )


def reusable(folder: Path, fingerprint: str | None) -> Stored | None:
    """Open the corpus in a folder if it is whole and has this fingerprint, else return None.

    Raises CorpusError where the folder's manifest is foreign, unreadable or of a later version, because a release
    must not overwrite what it does not understand.
    """
    if not (folder / MANIFEST).exists():
        return None
    found = read_manifest(folder).fingerprint
    if fingerprint is None or found != fingerprint:
        return None
    try:
        return open_folder(folder)
    except CorpusError as error:
        warnings.warn(f"{error}: building it again now", stacklevel=4)
        return None


def open_folder(folder: Path) -> Stored:
    """Open the corpus in a folder and check sizes, the order of the offsets, and that every id is in the vocabulary."""
    manifest = read_manifest(folder)
    data = folder / manifest.data
    sizes: Mapping[str, tuple[type[np.generic], int]] = {
        "ids": (np.int32, manifest.n_tokens),
        "offsets": (np.int64, manifest.n_sentences + 1),
        "vocabulary.text": (np.uint8, manifest.n_text_bytes),
        "vocabulary.offsets": (np.int64, manifest.n_types + 1),
        "vocabulary.counts": (np.int64, manifest.n_types),
    }
    arrays = {name: load_array(data / f"{name}.npy", *kind) for name, kind in sizes.items()}
    try:
        vocabulary = Vocabulary.from_arrays(manifest.vocabulary, arrays)
    except ArtifactError as error:
        raise CorpusError(f"the corpus in {folder} is damaged ({error}); build it again") from error
    ids, offsets = arrays["ids"], arrays["offsets"]
    checked_offsets(
        offsets,
        len(ids),
        what=f"the sentence offsets in {folder}",
        strictly=True,
        error=CorpusError,
        advice="; the corpus is damaged, build it again",
    )
    _check_ids(ids, len(vocabulary), folder)
    return Stored(ids, offsets, vocabulary, manifest)


def _check_ids(ids: NDArray[np.int32], n_types: int, folder: Path) -> None:
    """Raise CorpusError unless every id is one of the vocabulary; a part at a time."""
    for start in range(0, len(ids), PASS_ITEMS):
        block = ids[start : start + PASS_ITEMS]
        if block.min() < 0 or block.max() >= n_types:
            raise CorpusError(
                f"the ids in {folder} are damaged (beyond the {n_types} types); "
                "build the corpus again"
            )


def _is_ours(name: str) -> bool:
    return name == MANIFEST or name.startswith((PREFIX, "."))


def _sweep(folder: Path) -> None:
    """Remove what the manifest does not name, but for the folders of builds that are still running."""
    keep = {MANIFEST}
    with suppress(CorpusError):
        keep.add(read_manifest(folder).data)
    store.sweep(folder, keep, lambda name: name.startswith(PREFIX))


def fingerprint(
    *,
    paths: Sequence[Path] | None,
    tokenizer: str | None,
    selection: Selection,
    vocabulary: Vocabulary | None,
    reading: tuple[str, ...],
    cache_key: str | None,
) -> str | None:
    """Return a sha256 (hex) of sources and settings, equal only where the corpus would come out the same.

    Files count by absolute path, size and times of change. None is returned where the source is an iterable
    (``paths`` is None) or the tokenizer a callable (``tokenizer``, its version, is None), unless the user's
    ``cache_key`` stands for them. ``reading`` says how the text is read: the encoding, the handler of errors,
    and what is done with marks.
    """
    if cache_key is None and (paths is None or tokenizer is None):
        return None
    files = None
    if paths is not None:
        states = [(path.resolve(), path.stat()) for path in paths]
        files = [[str(path), s.st_size, s.st_mtime_ns, s.st_ctime_ns] for path, s in states]
    facts = {
        "build": _BUILD_VERSION,
        "classes": CLASSES,
        "files": files,
        "tokenizer": tokenizer,
        "selection": asdict(selection),
        "vocabulary": None if vocabulary is None else vocabulary.fingerprint,
        "reading": reading,
        "key": cache_key,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
