"""Installed models: a distribution that carries a saved model gives it a name, under the group ``tacenda.models``.

The entry point names a folder of the distribution, as ``english-lds = "tacenda_model_english_lds"``, and it is never
imported: finding and loading a model runs no code of the distribution that it lies in.
"""

from __future__ import annotations

import difflib
import importlib.machinery
import importlib.metadata
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from tacenda import plugins, store
from tacenda.errors import ArtifactError

__all__ = ["InstalledModel", "available", "find", "locate"]

#: The file with the card of a model, beside it; its first paragraph says what the model is.
CARD = "README.md"
#: What a model may be called: a bare word that cannot be taken for a path.
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_FOLDER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True)
class InstalledModel:
    """A saved model that an installed distribution carries.

    Attributes
    ----------
    name
        What `tacenda.load` finds it by.
    distribution, version, license
        As the metadata of the distribution have them; the licence is an SPDX expression, "" if none is given.
    summary
        What the model's card says first; where it has no card, the summary of the distribution.
    folder
        Where it lies.
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
    for entry in plugins.models():
        if not NAME.fullmatch(entry.name) or not _FOLDER.fullmatch(entry.target):
            continue
        dist = importlib.metadata.distribution(entry.distribution)
        folder = _folder(dist, entry.target)
        if folder is None:
            continue
        license, summary = (
            (dist.metadata.get_all(field) or [""])[0] for field in ("License-Expression", "Summary")
        )
        summary = _said_first(folder / CARD) or summary
        found.append(
            InstalledModel(entry.name, entry.distribution, entry.version, license, summary, folder)
        )
    return sorted(found, key=lambda model: (model.name, model.distribution))


def find(name: str) -> InstalledModel:
    """Return the installed model of this name; case and the kind of dash do not matter.

    Raises
    ------
    ArtifactError
        No model, or more than one, has this name.
    """
    models = available()
    found = [model for model in models if _is_called(model, name)]
    if not found:  # it may have been installed since the registry was read
        plugins.refresh()
        models = available()
        found = [model for model in models if _is_called(model, name)]
    if len(found) == 1:
        return found[0]
    if found:
        owners = " and ".join(model.distribution for model in found)
        raise ArtifactError(f"the model {name!r} is installed by {owners}: uninstall one of them")
    names = sorted({model.name for model in models})
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    listed = f"installed are {', '.join(names)}" if names else "no models are installed"
    raise ArtifactError(f"there is no such folder, and no installed model {name!r}: {listed}{hint}")


def _is_called(model: InstalledModel, name: str) -> bool:
    return plugins.canonical(model.name) == plugins.canonical(name)


def locate(source: str | os.PathLike[str]) -> Path:
    """Return the folder that is meant: a path that exists is that path, a bare name an installed model.

    Raises
    ------
    ArtifactError
        Nothing lies at ``source``, which could be a name, and no model of that name is installed; or it is the
        address of a model that has to be fetched or installed first.
    """
    folder = store.path_of(source, ArtifactError)
    text = os.fspath(source)
    if not text:
        raise ArtifactError(
            "an empty text names no model: give a folder, or a name of `tacenda models`"
        )
    if folder.suffix == ".whl":
        raise ArtifactError(f"{text} is a wheel: pip install it, then load the model by its name")
    if os.path.lexists(folder):
        return folder
    if "://" in text:
        raise ArtifactError(
            f"{text} is an address, and a model is loaded from a folder: `tacenda pull OWNER/NAME --output FOLDER` "
            "fetches one from a hub"
        )
    return find(text).folder if NAME.fullmatch(text) else folder


def _said_first(card: Path) -> str:
    """The line of a card that follows its title, "" if there is no card of that form."""
    try:
        with card.open(encoding="utf-8", errors="replace") as lines:
            title, empty, line = (lines.readline(1000) for _ in range(3))
    except OSError:
        return ""
    return " ".join(line.split()) if title.startswith("# ") and not empty.strip() else ""


def _folder(dist: importlib.metadata.Distribution, name: str) -> Path | None:
    """Return the folder of a distribution, also of one that is installed as editable; None if there is none."""
    beside = Path(str(dist.locate_file(name)))
    if (beside / "model.json").is_file():
        return beside
    # The finder only looks: for a name without a dot it imports nothing.
    spec = importlib.machinery.PathFinder.find_spec(name, sys.path)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / "model.json").is_file():
            return Path(place)
    return None
