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
    """
    outcomes: dict[int, Outcome] = {}
    waiting = []
    for i, record in enumerate(records):
        if plugins.is_registered(record):
            outcomes[i] = _try_here(record)
        else:
            waiting.append(i)
    while waiting:
        _try_in_child(records, waiting, outcomes, seconds)
    return [outcomes[i] for i in range(len(records))]


def _try_in_child(
    records: Sequence[PluginRecord],
    waiting: list[int],
    outcomes: dict[int, Outcome],
    seconds: float,
) -> None:
    """Take from ``waiting`` those that one child process loads, and the one that ends it."""
    # spawned: a forked child would have what this process has imported, and its locks
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    keys = [(records[i].kind, records[i].name, records[i].distribution) for i in waiting]
    # no daemon, which may have no children: a plugin may start some
    child = context.Process(target=_report, args=(theirs, keys))
    child.start()
    assert child.pid is not None
    theirs.close()
    try:
        # starting the child does not count towards the time of a plugin
        reason = "" if ours.poll(_SECONDS_TO_START) else "the process that loads it did not start"
        if not reason:
            ours.recv_bytes()
        while waiting and not reason:
            if not ours.poll(seconds):
                reason = f"it was not loaded within {seconds:g} seconds"
                break
            status, said, trace = json.loads(ours.recv_bytes())
            i = waiting.pop(0)
            outcomes[i] = Outcome(replace(records[i], status=status), said, trace)
    except (EOFError, OSError):
        child.join()
        reason = _explain_end(child.exitcode or 0)
    finally:
        with suppress(AttributeError, OSError):  # no groups on Windows, or none yet
            os.killpg(child.pid, signal.SIGKILL)  # with what a plugin has started
        child.kill()
        child.join()
        ours.close()
    if reason:
        i = waiting.pop(0)
        outcomes[i] = Outcome(replace(records[i], status="broken"), reason)


def _report(connection: Connection, keys: list[tuple[str, str, str]]) -> None:
    """Send that the child is ready, then load plugins, and send status, reason and traceback of each."""
    with suppress(AttributeError):  # Windows
        os.setpgid(0, 0)
    # the parent has read the metadata, and warned
    logging.getLogger(plugins.__name__).disabled = True
    found = {(each.kind, each.name, each.distribution): each for each in plugins.available()}
    connection.send_bytes(b"ready")
    for key in keys:
        outcome = _try_here(found[key])
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
