"""``tacenda ratings``: compare rating models on a file, fit one, recommend with it."""

from __future__ import annotations

import typer

from tacenda_surprise.cli.evaluating import evaluate
from tacenda_surprise.cli.fitting import fit
from tacenda_surprise.cli.recommending import recommend

app = typer.Typer(no_args_is_help=True, help="Evaluate, fit and apply rating models.")
for command in (evaluate, fit, recommend):
    app.command()(command)
