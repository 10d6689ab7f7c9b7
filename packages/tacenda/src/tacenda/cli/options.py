"""What the commands of all plugins ask of their arguments, and how they print columns."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from tacenda.errors import ArtifactError


def settings_of(pairs: list[str]) -> dict[str, Any]:
    """Read ``NAME=VALUE`` of a repeated option ``--set``; a value that is not JSON is a string.

    ``advanced.NAME=VALUE`` sets an option of the group ``advanced``.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--set takes NAME=VALUE, not {pair}")
        *groups, last = name.replace("-", "_").split(".")
        place = found
        for group in groups:
            place = place.setdefault(group, {})
        try:
            place[last] = json.loads(value)
        except (ValueError, RecursionError):
            place[last] = value
    return found


def check_output(folder: Path) -> None:
    """Find out before the work what would make saving a model in ``folder`` fail after it."""
    there = os.path.lexists(folder)
    if there and not folder.is_dir():
        raise ArtifactError(f"{folder} is not a folder, and a model is saved as a folder")
    if there and not (folder / "model.json").exists() and any(folder.iterdir()):
        raise ArtifactError(f"{folder} holds other files and no model: choose a new folder")
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not os.access(nearest, os.W_OK):
        raise ArtifactError(f"{nearest} cannot be written to: choose another --output")


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table whose first row is its headings."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
