"""A command group whose sub-commands are imported only when one of them is run.

The groups are those of the core, by ``module:attribute``, and the plugins of the kind ``commands``.
Help lists them without importing any, so a broken one disturbs neither the help nor the others.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from tacenda import plugins
from tacenda.errors import PluginLoadError, describe

#: The core's own lazy groups: name -> (``module:attribute``, one line of help).
BUILT_IN = {"data": ("tacenda.cli.data:app", "List and fetch datasets.")}


class LazyCommand(TyperCommand):
    """Stands for a command until it is run, which is when a context for it is made."""

    def __init__(self, name: str, help: str, load: Callable[[], Any]) -> None:
        super().__init__(name, help=help)
        self._load = load

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> Any:
        """The context of the real command, which takes over from here."""
        app = self._load()
        if not isinstance(app, typer.Typer):
            kind = type(app).__name__
            raise PluginLoadError(f"the commands {self.name!r} are a {kind}, not a typer.Typer")
        try:
            command = get_group(app)
        except Exception as error:  # a plugin's signatures may be wrong in any way
            raise PluginLoadError(
                f"the commands {self.name!r} cannot be built: {describe(error)}"
            ) from error
        return command.make_context(info_name, args, *more, **extra)


class LazyGroup(TyperGroup):
    """The commands defined in place, then the core's lazy groups, then those of plugins."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all commands; nothing is imported."""
        return [*super().list_commands(ctx), *_lazy_commands(set(self.commands))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One command, or a stand-in for it."""
        return super().get_command(ctx, cmd_name) or _lazy_commands(set()).get(cmd_name)


def _lazy_commands(taken: set[str]) -> dict[str, LazyCommand]:
    found: dict[str, LazyCommand] = {}
    for name, (target, text) in BUILT_IN.items():
        found[name] = LazyCommand(name, text, lambda target=target: _import(target))  # type: ignore[misc]
    records = plugins.available("commands")
    claims = Counter(record.name for record in records)
    for record in records:
        # A name that is taken, or claimed twice, is reached as name@distribution.
        alone = claims[record.name] == 1 and record.name not in {*taken, *found}
        name = record.name if alone else f"{record.name}@{record.distribution}"
        text = f"Commands of {record.distribution} {record.version}".rstrip() + "."
        found[name] = LazyCommand(name, text, _loader(record.name, record.distribution))
    return found


def _loader(name: str, distribution: str) -> Callable[[], Any]:
    return lambda: plugins.get("commands", name, distribution=distribution)


def _import(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)
