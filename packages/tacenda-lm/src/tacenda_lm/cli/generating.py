"""``tacenda lm generate``: sentences of a model, drawn or searched for."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tacenda_lm.cli.arguments import AsJson, Folder, Tokenizer, load_model, tokenizer_of


def generate(
    folder: Folder,
    context: Annotated[str, typer.Option(help="What every sentence begins with.")] = "",
    n: Annotated[int, typer.Option("-n", "--n", min=1, help="How many sentences.")] = 5,
    max_words: Annotated[int, typer.Option(min=1, help="The longest continuation.")] = 50,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the random choices; 0 by default.")
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(help="Below 1, probable words are drawn more often; 1 by default."),
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", min=1, help="Draw from the K most probable words only.")
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="WIDTH", help="Search for the most probable sentences instead."
        ),
    ] = None,
    tokenizer: Tokenizer = None,
    as_json: AsJson = False,
) -> None:
    """Print sentences of a model: random ones, or with --beam the most probable ones."""
    import numpy as np

    from tacenda.tokenizers import get_tokenizer

    given = {"--seed": seed, "--temperature": temperature, "--k": k}
    drawing = [name for name, value in given.items() if value is not None]
    if beam is not None and drawing:
        raise typer.BadParameter(
            f"--beam searches and draws nothing at random: leave out {' and '.join(drawing)}"
        )
    model = load_model(folder)
    begin = list(get_tokenizer(tokenizer_of(model, tokenizer))(context)) if context else []
    if beam is not None:
        found = model.beam(begin, width=max(beam, n), n=n, max_words=max_words)
    else:
        rng, heat = np.random.default_rng(seed or 0), 1.0 if temperature is None else temperature
        found = [
            model.sample(begin, max_words=max_words, seed=rng, temperature=heat, k=k)
            for _ in range(n)
        ]
    if as_json:
        typer.echo(json.dumps([each._asdict() for each in found]))
        return
    for each in found:
        typer.echo(" ".join([*begin, *each.words, *([] if each.ended else ["..."])]))
