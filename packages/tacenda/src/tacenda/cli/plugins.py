"""``tacenda plugins``: every installed plugin, and why a sick one is sick."""

from __future__ import annotations

import traceback
from typing import Annotated

import typer

from tacenda import plugins
from tacenda.errors import PluginError, describe

_HEADINGS = ("kind", "name", "distribution", "version", "status")


def list_plugins(
    kind: Annotated[
        str | None, typer.Argument(help=f"One of {', '.join(plugins.KINDS)}; all if not given.")
    ] = None,
    load: Annotated[
        bool, typer.Option(help="Try to load each; --no-load lists them and imports nothing.")
    ] = True,
    trace: Annotated[
        bool, typer.Option("--traceback", help="Show where a broken plugin failed.")
    ] = False,
) -> None:
    """List every plugin, and say why a sick one is sick."""
    problems: dict[int, str] = {}
    records = plugins.available(kind)
    if load:
        for i, record in enumerate(records):
            try:
                plugins.get(record.kind, record.name, distribution=record.distribution)
            except PluginError as error:
                problems[i] = describe(error.__cause__ or error)
        records = plugins.available(kind)
    rows = [_HEADINGS] + [(r.kind, r.name, r.distribution, r.version, r.status) for r in records]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for i, row in enumerate(rows, start=-1):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
        if i in problems:
            typer.echo(f"    {records[i].target}: {problems[i]}")
            cause = records[i].cause
            if trace and cause is not None:
                typer.echo("".join(traceback.format_exception(cause)).rstrip())
    if not records:
        typer.echo("(none is installed)")
