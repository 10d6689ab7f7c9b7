"""``corpus.json``: what a folder must say of itself to be opened as a corpus."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_origin, get_type_hints

from tacenda.errors import CorpusError

MANIFEST: Final = "corpus.json"
FORMAT: Final = "tacenda-corpus"
VERSION: Final = 1
PREFIX: Final = "build-"


@dataclass(frozen=True)
class Manifest:
    """What ``corpus.json`` says.

    data: the sub-folder of the arrays. vocabulary: Vocabulary.config_dict(). origin: where the
    text came from, in words. fingerprint: of sources and settings, or None where they cannot be
    compared.
    """

    data: str
    n_tokens: int
    n_sentences: int
    n_types: int
    n_text_bytes: int
    vocabulary: dict[str, Any]
    origin: dict[str, Any]
    fingerprint: str | None
    format: str = FORMAT
    version: int = VERSION


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a corpus folder; CorpusError if there is none that this release reads."""
    path = folder / MANIFEST
    if not path.is_file():
        raise CorpusError(
            f"{folder} holds no corpus ({MANIFEST} is missing); "
            "give a folder that was the cache= of Corpus.from_text"
        )
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
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
