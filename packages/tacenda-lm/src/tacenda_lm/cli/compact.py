"""``tacenda lm compact``: a smaller form of a saved model, and what it loses."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacenda.cli.options import Encoding, Errors, Force, check_output
from tacenda_lm.cli.arguments import Folder, Output, Tokenizer, load_model, sentences_of_file


def compact(
    folder: Folder,
    output: Output,
    bits: Annotated[
        int | None, typer.Option(help="Of a log-probability (kneser_ney); 8 by default.")
    ] = None,
    prune: Annotated[
        float,
        typer.Option(
            help="Leave out n-grams without which the perplexity rises by less than this share (kneser_ney)."
        ),
    ] = 0.0,
    precision: Annotated[
        str | None,
        typer.Option(help="Of large tables (other models): int8, the default, or float16."),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Held-out text, whose perplexities are printed."),
    ] = None,
    tokenizer: Tokenizer = None,
    encoding: Encoding = "utf-8",
    errors: Errors = "strict",
    force: Force = False,
) -> None:
    """Save a model in fewer bits, and print what is lost: the perplexity of --text before and after."""
    import tacenda
    from tacenda.artifact.by_name import locate
    from tacenda.errors import ConfigurationError
    from tacenda_lm import KneserNey

    if text is None and tokenizer is not None:
        raise ConfigurationError("--tokenizer splits the text of --text FILE: leave it out")
    model = load_model(folder)
    is_table = isinstance(model, KneserNey)
    given = {"bits": bits is not None, "prune": bool(prune), "precision": precision is not None}
    for name in ("precision",) if is_table else ("bits", "prune"):
        if given[name]:
            raise ConfigurationError(f"a model {model.name!r} has no --{name}: leave it out")
    check_output(output, force)
    before = _size(locate(folder))
    if isinstance(model, KneserNey):
        model.smaller(prune=prune, bits=8 if bits is None else bits).save(output)
    else:
        model.save(output, precision=precision or "int8")  # type: ignore[arg-type] # checked there
    typer.echo(f"{before / 1e6:.1f} MB, now {_size(output) / 1e6:.1f} MB in {output}")
    if text is not None:
        sentences = list(sentences_of_file(model, text, tokenizer, "refuse", encoding, errors))
        old, new = (
            each.perplexity(sentences, context=each.own_context, marks="keep")
            for each in (model, tacenda.load(output))
        )
        typer.echo(
            f"perplexity of {text}, {new.n_tokens:,} tokens: {old.value:.2f}, now {new.value:.2f}"
        )


def _size(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
