"""Options that the commands of all plugins share: their types, their help, and how ``--set`` is read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacenda.errors import ConfigurationError
from tacenda.reading import parse_json

#: Replaces what is there; see `check_output` and `check_file`.
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
Encoding = Annotated[str, typer.Option(help="Encoding of the text.")]
#: "strict", so that one wrong byte does not cost an evening's fit unnoticed; "replace" goes on
Errors = Annotated[
    str, typer.Option(help="What to do with undecodable bytes: strict, replace or ignore.")
]

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder or installed name of a saved model.")
]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to save the model in.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

# options of the commands that fit a model
Distribution = Annotated[
    str | None,
    typer.Option(help="Package of the model, if two packages have a model of that name."),
]
#: Read by `options_of`.
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set an option of the model, as JSON; advanced.NAME=VALUE sets an advanced option.",
    ),
]
Checkpoints = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Save progress in this folder, and resume from it."),
]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        help='"whitespace" (the default), for text with spaces between all tokens; "ascii_whitespace", as KenLM '
        'splits; "words", for running English text; or "spacy:LANG".'
    ),
]


def _check_precision(name: str | None) -> str | None:
    from tacenda.artifact.precision import PRECISIONS

    if name is not None and name not in PRECISIONS:
        raise ConfigurationError(f"--precision must be one of {', '.join(PRECISIONS)}, not {name}")
    return name


Precision = Annotated[
    str | None,
    typer.Option(
        callback=_check_precision,
        help="Save tables with 8 bits per number (int8, the default if the model has "
        "tables), 16 bits (float16) or unrounded (full).",
    ),
]
MaxVocabulary = Annotated[
    int, typer.Option(min=0, help="Number of most frequent words to keep; 0 keeps all.")
]
MinCount = Annotated[int, typer.Option(min=1, help="Leave rarer words out of the vocabulary.")]
Lowercase = Annotated[bool, typer.Option(help="Ignore case.")]
Digits = Annotated[bool, typer.Option(help="Map all numbers to one shape.")]

TextField = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help='Field with the text, if the lines are JSON objects; by default "text" in files named *.jsonl.',
    ),
]

#: Addresses of texts, which `open_corpus` reads, here or on a cluster.
Texts = Annotated[
    list[str],
    typer.Option(
        "--text",
        metavar="FILE|ADDRESS",
        help="Text, one sentence per line: a file, a glob, an address such as s3://bucket/*.txt, or - for standard "
        "input; may be repeated.",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS|local",
        help="Count on the workers of this Dask scheduler, such as tcp://host:8786; local starts a "
        "worker for each processor.",
    ),
]


def options_of(settings: list[str] | None, **named: Any) -> dict[str, Any]:
    """Return the options of a model from ``--set`` and from options of the command, None if they are not given.

    ``--set`` has pairs ``NAME=VALUE``; a value that is not JSON is a string, and ``advanced.NAME=VALUE`` sets an option
    of the group ``advanced``. Raises BadParameter if an option is given twice.
    """
    found: dict[str, Any] = {}
    for pair in settings or []:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--set takes NAME=VALUE, not {pair}")
        try:
            read = parse_json(value.encode())
        except ValueError:
            read = value
        _set_once(found, name.replace("-", "_"), read, f"--set {pair}")
    for name, value in named.items():
        if value is not None:
            _set_once(found, name, value, "an option of the command")
    return found


def _set_once(found: dict[str, Any], name: str, value: Any, given: str) -> None:
    """Add an option, or those of a group. Raises BadParameter, which names ``given``, if one is there already."""
    *groups, last = name.split(".")
    place: Any = found
    for group in groups:
        place = place.setdefault(group, {})
        if not isinstance(place, dict):
            raise typer.BadParameter(
                f"{given} sets {name}, and --set gives the group {group} the value {place!r:.40}; "
                "leave out one of the two"
            )
    if isinstance(value, dict) and isinstance(place.get(last), dict):
        for key, inner in value.items():
            _set_once(found, f"{name}.{key}", inner, given)
        return
    if last in place:
        raise typer.BadParameter(
            f"{given} sets {name}, which --set has set already, whole or in part; leave out one of the two"
        )
    place[last] = value


def refuse_idle(context: typer.Context, why: str, *options: str) -> None:
    """Raise BadParameter for an option of the command line that has no effect, and say ``why``."""
    for one in context.command.params:
        source = context.get_parameter_source(one.name or "")
        if one.opts[0] in options and source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"{one.opts[0]} has no effect {why}; leave it out")
