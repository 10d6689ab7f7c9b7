"""The command ``tacenda``.

An error of Tacenda's own is one line on standard error and exit status 1; wrong usage exits with 2.
``TACENDA_DEBUG=1`` shows the traceback instead.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

import tacenda
from tacenda.cli.lazy import LazyGroup
from tacenda.cli.plugins import list_plugins
from tacenda.errors import TacendaError, describe

app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Probabilistic latent-variable models as plugins for spaCy and Surprise.",
)
app.command("plugins")(list_plugins)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tacenda {tacenda.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line and exit."""
    try:
        app(prog_name="tacenda")
    except TacendaError as error:
        if os.environ.get("TACENDA_DEBUG", "0") not in ("", "0"):
            raise
        print("tacenda:", describe(error), file=sys.stderr)
        raise SystemExit(1) from None
