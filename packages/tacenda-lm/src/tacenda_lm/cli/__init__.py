"""``tacenda lm``: fit language models, score text with them, generate from them, mix them, exchange them."""

from __future__ import annotations

import typer

from tacenda_lm.cli.arpa import from_arpa, to_arpa
from tacenda_lm.cli.compact import compact
from tacenda_lm.cli.fitting import cache, clusters, fit, mix
from tacenda_lm.cli.generating import generate
from tacenda_lm.cli.scoring import perplexity, score
from tacenda_lm.cli.surprisal import surprisal

app = typer.Typer(no_args_is_help=True, help="Fit, apply and mix language models.")
for command in (
    surprisal,
    compact,
    fit,
    score,
    perplexity,
    generate,
    mix,
    cache,
    from_arpa,
    to_arpa,
    clusters,
):
    app.command()(command)
