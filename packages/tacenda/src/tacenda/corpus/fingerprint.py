"""A fingerprint of sources and settings: equal only where the corpus would come out the same."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tacenda.corpus.building import Selection
from tacenda.vocabulary import Vocabulary
from tacenda.word_classes import CLASSES

_BUILD_VERSION = 1  # raise it when the same sources and settings come to give another corpus


def fingerprint(
    *,
    paths: Sequence[Path] | None,
    tokenizer: str | None,
    selection: Selection,
    vocabulary: Vocabulary | None,
    reading: tuple[str, str],
    cache_key: str | None,
) -> str | None:
    """sha256 (hex), or None where source or tokenizer cannot be compared and no key stands for
    them.

    paths: files, each identified by its absolute path, size and times of change; None for an
    iterable. tokenizer: the tokenizer's version; None for a callable. reading: encoding and error
    handler. cache_key: the user's word for what cannot be compared.
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
