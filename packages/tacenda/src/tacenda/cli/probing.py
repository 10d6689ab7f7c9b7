"""Load plugins in a child process, for the command that names the plugins that fail.

One child loads one plugin after the other, and reports each. A plugin that ends the child, or does not come to an end,
is the one whose report is missing; a new child loads the next.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from multiprocessing.connection import Connection
from typing import NamedTuple

from tacenda import plugins
from tacenda.errors import PluginError, describe
from tacenda.plugins import PluginRecord

# A child imports Tacenda in a second, and takes longer on a busy machine.
_SECONDS_TO_START = 120


class Outcome(NamedTuple):
    """A plugin after it was loaded: its record, and why and where it failed, if it did."""

    record: PluginRecord
    reason: str = ""
    trace: str = ""


def try_plugins(records: Sequence[PluginRecord], seconds: float) -> list[Outcome]:
    """Load plugins in child processes, and return what came of each, in order.

    A plugin that needs more than ``seconds`` is broken. Those that were registered in this process are loaded here.
    Raises PluginError if no child process starts.
    """
    outcomes: list[Outcome] = []
    while rest := records[len(outcomes) :]:
        installed = list(takewhile(lambda record: not plugins.is_registered(record), rest))
        outcomes += _try_in_child(installed, seconds) if installed else [_try_here(rest[0])]
    return outcomes


def _try_in_child(records: Sequence[PluginRecord], seconds: float) -> list[Outcome]:
    """Return what came of the plugins that one child process loads, up to the one that ends it."""
    # spawned: a forked child would have what this process has imported, and its locks
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    # no daemon, which may have no children: a plugin may start some
    unloaded = [replace(record, cause=None) for record in records]
    child = context.Process(target=_report, args=(theirs, unloaded))
    child.start()
    assert child.pid is not None
    theirs.close()
    received: list[bytes] = []  # a message when the child has started, and one for each plugin
    reason = ""
    try:
        while len(received) <= len(records) and not reason:
            limit = seconds if received else _SECONDS_TO_START
            if ours.poll(limit):
                received.append(ours.recv_bytes())
            else:
                reason = f"it was not loaded within {limit:g} seconds"
    except (EOFError, OSError):
        child.join()
        reason = _explain_end(child.exitcode or 0)
    finally:
        with suppress(AttributeError, OSError):  # no groups on Windows, or none yet
            os.killpg(child.pid, signal.SIGKILL)  # with what a plugin has started
        child.kill()
        child.join()
        ours.close()
    if not received:
        raise PluginError(
            "the process that loads plugins did not start: use --no-load to list them without loading any"
        )
    outcomes = []
    for record, message in zip(records, received[1:], strict=False):
        status, said, trace = json.loads(message)
        outcomes.append(Outcome(replace(record, status=status), said, trace))
    if reason:
        broken = replace(records[len(outcomes)], status="broken")
        outcomes.append(Outcome(broken, reason))
    return outcomes


def _report(connection: Connection, records: Sequence[PluginRecord]) -> None:
    """Send that the child has started, then load plugins, and send status, reason and traceback of each."""
    with suppress(AttributeError):  # Windows
        os.setpgid(0, 0)
    # the parent has read the metadata, and warned
    logging.getLogger(plugins.__name__).disabled = True
    plugins.records()
    connection.send_bytes(b"started")
    for record in records:
        outcome = _try_here(record)
        # as JSON: nothing that a plugin may have written is unpickled
        sent = outcome.record.status, outcome.reason, outcome.trace
        connection.send_bytes(json.dumps(sent).encode())


def _try_here(record: PluginRecord) -> Outcome:
    reason = ""
    try:
        plugins.get(record.kind, record.name, distribution=record.distribution)
    except PluginError as error:
        reason = describe(error.__cause__ or error)
    now = next(each for each in plugins.available(record.kind) if each.key == record.key)
    trace = "".join(traceback.format_exception(now.cause)).rstrip() if now.cause else ""
    return Outcome(replace(now, cause=None), reason, trace)


def _explain_end(status: int) -> str:
    name = f"signal {-status}"
    with suppress(ValueError):
        name = signal.Signals(-status).name
    return f"it ended the process ({f'exit status {status}' if status >= 0 else name}) while it was imported"
