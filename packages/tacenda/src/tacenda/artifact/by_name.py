"""Installed models: a distribution that carries a saved model gives it a name, under the group ``tacenda.models``.

The entry point names a folder of the distribution, as ``english-lds = "tacenda_model_english_lds"``, and it is never
imported: finding and loading a model runs no code of the distribution that carries it.
"""

from __future__ import annotations

import difflib
import importlib.machinery
import importlib.metadata
import io
import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tacenda import plugins, reading
from tacenda.errors import ArtifactError

#: The file that makes a folder a model.
MANIFEST = "model.json"
#: The file with the card of a model, in its folder; the first paragraph says what the model is.
CARD = "README.md"
#: A name of a model: a bare word that cannot be taken for a path.
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_FOLDER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True)
class InstalledModel:
    """A saved model that an installed distribution carries.

    Attributes
    ----------
    name
        The name for `tacenda.load`.
    distribution, version, license
        As the metadata of the distribution have them; the license is an SPDX expression, "" if none is given.
    summary
        The first line of the model's card; where it has no card, the summary of the distribution.
    folder
        The folder of the model.
    """

    name: str
    distribution: str
    version: str
    license: str
    summary: str
    folder: Path


def available() -> list[InstalledModel]:
    """List the installed models by name; one whose folder is missing or has a hostile name is left out."""
    found = []
    for record, folder in _find():
        metadata = importlib.metadata.metadata(record.distribution)
        license, summary = (
            (metadata.get_all(field) or [""])[0] for field in ("License-Expression", "Summary")
        )
        with suppress(OSError, ValueError):  # it may have no card
            with (
                reading.open_regular(folder / CARD) as raw,
                io.TextIOWrapper(raw, encoding="utf-8", errors="replace") as card,
            ):
                title, empty, line = (card.readline(1000) for _ in range(3))
            if title.startswith("# ") and not empty.strip():
                summary = " ".join(line.split()) or summary
        about = record.name, record.distribution, record.version
        found.append(InstalledModel(*about, license, summary, folder))
    return sorted(found, key=lambda model: (model.name, model.distribution))


def locate(source: str | os.PathLike[str]) -> Path:
    """Return the folder that is meant: a path that exists is that path, a bare name an installed model.

    Raises ArtifactError if nothing is at ``source``, which could be a name, and no model of that name is installed; and
    for the address of a model that has to be fetched or installed first.
    """
    folder = reading.path_of(source, ArtifactError)
    text = os.fspath(source)
    if folder.suffix == ".whl":
        raise ArtifactError(f"{text} is a wheel: pip install it, then load the model by its name")
    if os.path.lexists(folder):
        return folder
    if "://" in text:
        raise ArtifactError(
            f"{text} is an address, and a model is loaded from a folder: `tacenda pull OWNER/NAME --output FOLDER` "
            "fetches one from a hub"
        )
    if not NAME.fullmatch(text):
        return folder
    found = _find(text)
    if not found:  # it may have been installed since the registry was read
        plugins.refresh()
        found = _find(text)
    if len(found) == 1:
        return found[0][1]
    if found:
        owners = " and ".join(sorted(record.distribution for record, _ in found))
        raise ArtifactError(f"the model {text!r} is installed by {owners}: uninstall one of them")
    names = sorted({record.name for record, _ in _find()})
    close = difflib.get_close_matches(text, names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    listed = f"installed are {', '.join(names)}" if names else "no models are installed"
    raise ArtifactError(f"there is no such folder, and no installed model {text!r}: {listed}{hint}")


def _find(name: str | None = None) -> list[tuple[plugins.PluginRecord, Path]]:
    """Return the entry points of installed models, or of those of one name, each with its folder."""
    wanted = None if name is None else plugins.canonical(name)
    found = []
    for record in plugins.records():
        sound = (
            record.kind == "models"
            and NAME.fullmatch(record.name)
            and _FOLDER.fullmatch(record.target)
        )
        if not sound or wanted not in (None, plugins.canonical(record.name)):
            continue
        try:
            dist = importlib.metadata.distribution(record.distribution)
        except importlib.metadata.PackageNotFoundError:
            continue  # its folder has another name than its METADATA
        places = [Path(str(dist.locate_file(record.target)))]
        if not (places[0] / MANIFEST).is_file():
            # One that is installed as editable: the finder only looks, and for a name without a dot imports nothing.
            spec = importlib.machinery.PathFinder.find_spec(record.target, sys.path)
            places = [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
        found += [(record, place) for place in places if (place / MANIFEST).is_file()][:1]
    return found
