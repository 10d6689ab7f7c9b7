"""The groups and commands of ``tacenda``.

Its groups are the plugins of the kind ``commands``. A group is imported only when one of its commands is run, and the
core's own commands import what they need when they run, so help is fast, and a broken plugin disturbs neither the help
nor the other commands.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

import tacenda
from tacenda import plugins
from tacenda.cli.options import Force
from tacenda.cli.paths import check_output
from tacenda.errors import PluginError, PluginLoadError, describe

#: The help of the groups of Tacenda's distributions, which keep their names whoever else claims them.
OURS = {
    "tacenda-embeddings": "Fit, apply and inspect token embeddings.",
    "tacenda-lm": "Fit, apply and mix language models.",
    "tacenda-surprise": "Train, apply and compare rating models.",
}


class _LazyCommand(TyperCommand):
    """A placeholder for a plugin's command, which is imported when it is run."""

    def __init__(self, name: str, help: str, load: Callable[[], Any]) -> None:
        super().__init__(name, help=help)
        self._load = load

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> Any:
        """Make the context of the plugin's command, which runs instead of this one."""
        try:
            command = get_group(self._load())
        except PluginError:
            raise
        except Exception as error:  # a plugin's signatures may be wrong in any way
            raise PluginLoadError(
                f"the commands {self.name!r} cannot be built: {describe(error)}"
            ) from error
        _make_plain(command)
        return command.make_context(info_name, args, *more, **extra)


def _make_plain(command: Any) -> None:
    """Make a command print help and errors as plain text: importing rich would take most of the time."""
    command.rich_markup_mode = None
    for subcommand in getattr(command, "commands", {}).values():
        _make_plain(subcommand)


class _LazyGroup(TyperGroup):
    """A group of the commands of this module and of plugins."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands; nothing is imported."""
        return [*super().list_commands(ctx), *self._lazy()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command of this module, or the placeholder of a plugin's; None for an unknown name."""
        return super().get_command(ctx, cmd_name) or self._lazy().get(cmd_name)

    def _lazy(self) -> dict[str, _LazyCommand]:
        return _make_lazy_commands(frozenset(self.commands), plugins.generation)


# cached, because help asks once for every command
@lru_cache(maxsize=1)
def _make_lazy_commands(taken: frozenset[str], generation: int) -> dict[str, _LazyCommand]:
    """Return the placeholders by name, for a set of names that are taken and a generation of the registry.

    The command of Tacenda's own distributions gets its plain name, and so does any other whose name is claimed once and
    not taken. Others are named ``NAME@DISTRIBUTION``.
    """
    commands: dict[str, _LazyCommand] = {}
    records = plugins.available("commands")
    ours = {record.name for record in records if record.distribution in OURS}
    claims = Counter(record.name for record in records)
    for record in records:
        if record.name in ours:
            has_plain_name = record.distribution in OURS
        else:
            has_plain_name = claims[record.name] == 1 and record.name not in taken
        name = record.name if has_plain_name else f"{record.name}@{record.distribution}"
        default_help = f"Commands of {record.distribution} {record.version}".rstrip() + "."
        help = OURS.get(record.distribution, default_help)
        load = partial(plugins.get, "commands", record.name, distribution=record.distribution)
        commands[name] = _LazyCommand(name, help, load)
    return commands


app = typer.Typer(
    cls=_LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Latent-variable models for spaCy pipelines, language modeling and ratings.",
)


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


def _seconds(help: str) -> Any:
    """Return an option for a time limit in seconds."""

    def refuse_nan(value: float) -> float:
        if math.isnan(value):  # click finds it in every range
            raise typer.BadParameter("nan is not a number")
        return value

    return typer.Option(min=0.1, max=1e6, callback=refuse_nan, help=help)


def _align_columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table of left-aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def format_size(size: int | None) -> str:
    """Return a number of bytes with a unit, or ``?`` if it is unknown."""
    if size is None:
        return "?"
    if size < 1000:
        return f"{size} B"
    amount, unit = size / 1000, "kB"
    for larger in ("MB", "GB"):
        if amount >= 999.95:  # which would be rounded to 1000.0
            amount, unit = amount / 1000, larger
    return f"{amount:.1f} {unit}"


@app.command("plugins")
def list_plugins(
    kind: Annotated[
        str | None, typer.Argument(help=f"{', '.join(plugins.KINDS)}; all by default.")
    ] = None,
    load: Annotated[
        bool,
        typer.Option(
            help="Try to load each plugin; --no-load only lists them, without importing anything."
        ),
    ] = True,
    trace: Annotated[
        bool, typer.Option("--traceback", help="Show where a broken plugin failed.")
    ] = False,
    timeout: Annotated[float, _seconds("Seconds that a plugin may take to load.")] = 60.0,
) -> None:
    """List the installed plugins, and show why any failed to load.

    A child process loads them, so a plugin that crashes or hangs does not stop this command.
    """
    from tacenda.cli.probing import Outcome, try_plugins

    records = plugins.available(kind)
    outcomes = try_plugins(records, timeout) if load else [Outcome(record) for record in records]
    rows = [("kind", "name", "distribution", "version", "status")]
    for record in (outcome.record for outcome in outcomes):
        rows.append((record.kind, record.name, record.distribution, record.version, record.status))
    heading, *lines = _align_columns(rows)
    typer.echo(heading)
    for line, outcome in zip(lines, outcomes, strict=True):
        typer.echo(line)
        if outcome.reason:
            typer.echo(f"    {outcome.record.target}: {outcome.reason}")
        if trace and outcome.trace:
            typer.echo(outcome.trace)
    if not records:
        typer.echo(f"({plugins.say_none(kind)})")
    for fault in plugins.faults():
        typer.echo(fault)


@app.command("models")
def list_models() -> None:
    """List the installed models, which you can load by name."""
    from tacenda import store
    from tacenda.artifact import by_name

    rows = [("name", "version", "license", "size", "what it is")]
    for model in by_name.available():
        size = format_size(store.size_of(model.folder))
        rows.append((model.name, model.version, model.license, size, model.summary))
    typer.echo("\n".join(_align_columns(rows)))
    if len(rows) == 1:
        typer.echo("(none is installed)")


data = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="List and download datasets.")
app.add_typer(data, name="data")


@data.command("list")
def list_datasets() -> None:
    """List the datasets: license, download size, local folder, official address."""
    from tacenda import datasets
    from tacenda.datasets.catalogue import find

    rows = [("name", "license", "size", "here", "address")]
    for spec in datasets.available():
        found = find(spec)
        here = f"{found.source}: {found.path}" if found else "-"
        address = f"not to be downloaded; see {spec.homepage}"
        if spec.downloads:
            more = f" and {len(spec.downloads) - 1} more" if len(spec.downloads) > 1 else ""
            mark = "" if all(item.confirmed for item in spec.downloads) else " *"
            address = f"{spec.downloads[0].urls[0]}{more}{mark}"
        rows.append((spec.name, spec.license, format_size(spec.size), here, address))
    typer.echo("\n".join(_align_columns(rows)))
    typer.echo(
        "\n* not confirmed by a second source\n"
        f"`tacenda data fetch NAME` brings one into {datasets.cache_root()}; "
        "TACENDA_DATA names a folder that is searched first."
    )


@data.command("fetch")
def fetch_dataset(
    name: Annotated[str, typer.Argument(help="Name of the dataset, from `tacenda data list`.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Data folder to store it in. Default: the cache."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Download it even if it is already there.")
    ] = False,
    accept_changed: Annotated[
        bool,
        typer.Option("--accept-changed", help="Accept a file that differs from the recorded one."),
    ] = False,
    timeout: Annotated[float, _seconds("Seconds without data after which an attempt fails.")] = 30,
) -> None:
    """Download a dataset from its official address.

    Needs the extra tacenda[data].
    """
    from tacenda import datasets
    from tacenda.datasets.fetching import MANIFEST

    spec = datasets.get(name)
    typer.echo(f"{spec.title}\nlicense: {spec.license_text}\nhome page: {spec.homepage}")
    for item in spec.downloads:
        typer.echo(f"from: {item.urls[0]}")
    result = datasets.fetch(
        name, output, force=force, accept_changed=accept_changed, timeout=timeout
    )
    for receipt in result.receipts:
        verdict = "as published" if receipt.verified else "unverified: no hash is published"
        if not receipt.verified and result.recorded.get(receipt.filename) == receipt.sha256:
            verdict = "unverified, but the same as fetched before"
        typer.echo(
            f"{receipt.filename}: {receipt.bytes:,} bytes, sha256 {receipt.sha256}, {verdict}"
        )
    if result.receipts:
        typer.echo(f"{name} is in {result.dataset.path}; recorded in {MANIFEST}")
    else:
        typer.echo(f"{name} was in {result.dataset.path} already; nothing was fetched")


#: Options of the commands that write a model card.
License = Annotated[str, typer.Option(help="An SPDX expression, such as CC-BY-SA-4.0.")]
Version = Annotated[str, typer.Option(help="The version of the model.")]
Summary = Annotated[str, typer.Option(help="One line that describes the model.")]
Attribution = Annotated[
    str, typer.Option(help="Credits that the license of the data requires, in Markdown.")
]


@app.command("package")
def package_model(
    model: Annotated[Path, typer.Argument(help="The folder of a saved model.")],
    name: Annotated[str, typer.Option(help="Name for `tacenda.load`.")],
    license: License,
    version: Version = "0.1.0",
    summary: Summary = "",
    attribution: Attribution = "",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the wheel.")] = Path(
        "dist"
    ),
) -> None:
    """Make an installable wheel of a saved model.

    The wheel has a model card and a name for loading the model. Needs the extra tacenda[package].
    """
    from tacenda.artifact.packaging import ModelCard, package

    about = ModelCard(name, version, license, summary, attribution)
    wheel = package(model, about, output)
    typer.echo(f"{wheel}: pip install it, then tacenda.load({name!r})")


@app.command("pull")
def pull_model(
    repository: Annotated[
        str, typer.Argument(metavar="OWNER/NAME", help="A repository of the hub.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the model.")
    ],
    revision: Annotated[str, typer.Option(help="A branch, tag or commit.")] = "main",
    force: Force = False,
) -> None:
    """Download a model from a hub.

    Needs the extra tacenda[hub]. Reads HF_ENDPOINT and HF_TOKEN.
    """
    from tacenda.artifact.hub import pull

    check_output(output, force)
    typer.echo(f"{pull(repository, output, revision=revision)}: load it with tacenda.load")


@app.command("push")
def push_model(
    model: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a saved model.")],
    repository: Annotated[
        str, typer.Argument(metavar="OWNER/NAME", help="A repository of the hub.")
    ],
    license: License,
    version: Version = "0.1.0",
    summary: Summary = "",
    attribution: Attribution = "",
    private: Annotated[
        bool, typer.Option("--private", help="Make a new repository private.")
    ] = False,
) -> None:
    """Upload a saved model to a repository of a hub, with a model card.

    Needs the extra tacenda[hub]. Reads HF_ENDPOINT and HF_TOKEN.
    """
    from tacenda.artifact.hub import push
    from tacenda.artifact.packaging import ModelCard

    about = ModelCard(repository.rpartition("/")[2], version, license, summary, attribution)
    typer.echo(push(model, repository, about, private=private))
