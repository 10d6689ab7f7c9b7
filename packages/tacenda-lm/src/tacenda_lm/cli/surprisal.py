"""``tacenda lm surprisal``: a table of the words of texts, for studies of reading."""

from __future__ import annotations

import io
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from tacenda.cli.options import Encoding, Errors, Force, as_options, check_file, input_text
from tacenda_lm.cli.arguments import Folder, Tokenizer, load_model


def surprisal(
    folder: Folder,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Texts, of which - is standard input, or files of items."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write a .csv or .tsv file."),
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The files are of items, with a region in each row of this column.",
        ),
    ] = None,
    item: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column that tells items apart; may be repeated."),
    ] = None,
    sentence: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column that tells the sentences of an item apart."),
    ] = None,
    quotes: Annotated[
        bool, typer.Option(help="Values of item files may stand in double quotes.")
    ] = True,
    previous: Annotated[
        int, typer.Option(min=0, help="Words before, whose figures each row has too.")
    ] = 1,
    unknown: Annotated[
        str, typer.Option(help='Unknown words: "spelling", "even" or "class".')
    ] = "spelling",
    unseen_types: Annotated[
        int | None, typer.Option(min=1, help='For "even": how many words are unknown.')
    ] = None,
    split: Annotated[
        str,
        typer.Option(help='"lines": a line is a sentence; "sentences": split at punctuation too.'),
    ] = "lines",
    context: Annotated[
        str, typer.Option(help='"text": given all words before; "sentence": those of the sentence.')
    ] = "text",
    tokenizer: Tokenizer = None,
    tabs: Annotated[bool, typer.Option("--tabs", help="Print tabs instead of commas.")] = False,
    encoding: Encoding = "utf-8",
    errors: Errors = "strict",
    force: Force = False,
) -> None:
    """Print one row for every word of texts: its surprisal in bits, and what a regression needs beside it.

    A word is what stands between whitespace, or with --region what a row of an item file holds. The columns are text,
    sentence, word_index, start, end (characters), word, surprisal (bits, without attached punctuation),
    surprisal_with_punctuation, known, log_frequency (base 2, of the training text), length, and with _prev1 ... the
    same of the words before. What can be misread in them is said on standard error.
    """
    from tacenda_lm.surprisal.items import items_of_lines, read_items
    from tacenda_lm.surprisal.table import check_ending, surprisal_table

    if (item or sentence) and region is None:
        name = "--item" if item else "--sentence"
        raise typer.BadParameter(f"{name} needs --region COLUMN, the column of the regions")
    if [str(file) for file in files].count("-") > 1:
        raise typer.BadParameter("- is standard input, which can be read once: give it once")
    if output is not None:
        check_ending(output)
        check_file(output, force)
    model = load_model(folder)
    texts: list[Any] = []
    columns: dict[str, Any] = {
        "region": region,
        "text": item or [],
        "sentence": sentence,
        "quotes": quotes,
    }
    for given in (input_text(file, encoding, errors) for file in files):
        if region is None:
            # with a line end behind it no text is taken for the name of a file
            texts.append(given if isinstance(given, Path) else "\n".join([*given, ""]))
        elif isinstance(given, Path):
            texts += read_items(given, **columns, encoding=encoding, errors=errors)
        else:
            texts += items_of_lines(given, ("standard input",), **columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # they are notes of the table
        table = surprisal_table(
            model,
            texts,
            previous=previous,
            unknown=cast("Any", unknown),
            unseen_types=unseen_types,
            split=cast("Any", split),
            context=cast("Any", context),
            tokenizer=tokenizer,
            encoding=encoding,
            errors=errors,
        )
    for note in table.notes:
        typer.echo(f"note: {as_options(note)}", err=True)
    delimiter = "\t" if tabs else None
    if output is None and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as a file is
    table.write(sys.stdout if output is None else output, delimiter=delimiter)
