"""Bars are seen where somebody looks, and cost nothing elsewhere."""

import errno
import io
import sys
import threading
from contextlib import closing

import pytest

from support.processes import output_of
from tacenda import progress
from tacenda.progress import track


class Terminal(io.StringIO):
    def isatty(self):
        return True


def screen_for(monkeypatch, stream=None):
    """A terminal, and bars that do not wait; not a fixture, for pytest puts its own stderr back."""
    stream = Terminal() if stream is None else stream
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0.0)
    monkeypatch.delenv("TACENDA_PROGRESS", raising=False)
    return stream


def test_items_pass_through_unchanged_with_and_without_a_bar(monkeypatch):
    screen_for(monkeypatch)
    for disable in (True, False, None):
        assert list(track(iter([1, 2, 3]), "counting", disable=disable)) == [1, 2, 3]


@pytest.mark.parametrize(
    ("kind", "wish", "disable", "shown"),
    [
        (Terminal, "0", None, False),
        (Terminal, "", None, True),
        (Terminal, "1", None, True),
        (Terminal, "0", False, True),
        (Terminal, "1", True, False),
        (io.StringIO, "", None, False),
        (io.StringIO, "1", None, True),
    ],
)
def test_who_decides_on_a_terminal_and_in_a_log_file(monkeypatch, kind, wish, disable, shown):
    screen = screen_for(monkeypatch, kind())
    monkeypatch.setenv("TACENDA_PROGRESS", wish)
    list(track(range(3), "fitting", disable=disable, unit="epoch"))
    assert ("fitting" in screen.getvalue()) == shown
    assert ("3.00/3.00" in screen.getvalue()) == shown


def test_what_is_done_within_a_second_shows_nothing(monkeypatch):
    screen = screen_for(monkeypatch)
    monkeypatch.setattr(progress, "DELAY_SECONDS", 1e6)
    list(track(range(1000), "fitting"))
    assert screen.getvalue() == ""


@pytest.mark.parametrize("disable", [True, False])
def test_a_bar_can_be_moved_by_hand(monkeypatch, disable):
    screen = screen_for(monkeypatch)
    with closing(track(None, "reading", total=10, disable=disable)) as bar:
        bar.update(4)
        bar.set_postfix_str("loss 1.0")
        bar.update(6)
    assert ("10/10" in screen.getvalue()) == (not disable)


def test_no_monitor_thread_is_left_to_be_lost_in_a_fork(monkeypatch):
    screen_for(monkeypatch)
    before = threading.active_count()
    bar = track(range(3), "fitting")
    assert list(bar) == [0, 1, 2]
    assert threading.active_count() == before


def test_a_hidden_bar_does_not_import_tqdm():
    source = "import sys; from tacenda.progress import track; list(track([1], 'x')); "
    check = "sys.exit('tqdm' in sys.modules)"
    output_of("-c", source + check, TACENDA_PROGRESS="0", PATH="")


def test_a_bar_that_cannot_be_written_does_not_end_the_work(monkeypatch):
    class Full(Terminal):
        def write(self, text):
            raise OSError(errno.ENOSPC, "No space left on device")

        def flush(self):
            self.write("")

    class Log:
        """A stand-in for standard error that cannot tell whether it is a terminal."""

        def write(self, text): ...
        def flush(self): ...

    closed = io.StringIO()
    closed.close()
    for stream in (Full(), Log(), closed):
        for wish in ("", "1"):
            screen_for(monkeypatch, stream)
            check_that_work_goes_on(monkeypatch, wish)


@pytest.mark.parametrize("wish", ["", "1"])
def test_no_bar_is_shown_without_standard_error(monkeypatch, capsys, wish):
    monkeypatch.setattr(sys, "stderr", None)
    check_that_work_goes_on(monkeypatch, wish)
    assert capsys.readouterr().out == ""


def check_that_work_goes_on(monkeypatch, wish):
    monkeypatch.setenv("TACENDA_PROGRESS", wish)
    for disable in (None, False):
        assert list(track(range(3), "fitting", disable=disable)) == [0, 1, 2]
    with closing(track(None, "reading", total=3)) as bar:
        bar.update(3)
    progress.announce("a line")
