"""The command ``tacenda`` in its own process: exit codes, and errors in one line."""

import os
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

import tacenda
from tacenda import plugins
from tacenda.cli.main import app, main
from tacenda.cli.options import settings_of
from tacenda.errors import DataError


def tacenda_command(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "tacenda", *arguments],
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def failing():
    """A command group one of whose commands fails with an error of ours, the other with a bug."""
    group = typer.Typer()

    @group.command()
    def ours():
        raise DataError("the file\n  is not there: fetch it")

    @group.command()
    def bug():
        raise ZeroDivisionError

    plugins.register("commands", "failing", group)
    yield
    plugins.unregister("commands", "failing")


def test_an_error_of_ours_is_one_line_on_standard_error_and_exit_1(failing, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tacenda", "failing", "ours"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    assert capsys.readouterr() == ("", "tacenda: the file is not there: fetch it\n")


def test_the_traceback_is_there_for_those_who_ask(failing, monkeypatch):
    monkeypatch.setenv("TACENDA_DEBUG", "1")
    monkeypatch.setattr(sys, "argv", ["tacenda", "failing", "ours"])
    with pytest.raises(DataError):
        main()


def test_a_bug_is_not_disguised(failing, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tacenda", "failing", "bug"])
    with pytest.raises(ZeroDivisionError):
        main()


def test_plugin_commands_are_listed_with_their_distribution_and_run(failing):
    listed = CliRunner().invoke(app, ["--help"])
    assert "failing" in listed.output
    assert "Commands of <runtime>." in listed.output
    assert CliRunner().invoke(app, ["failing", "--help"]).exit_code == 0


def test_wrong_usage_exits_with_2():
    for arguments in (["nonsense"], ["plugins", "--nonsense"], ["plugins", "a", "b"]):
        assert CliRunner().invoke(app, arguments).exit_code == 2


def test_an_error_of_ours_in_a_real_process():
    done = tacenda_command("plugins", "nonsense")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("tacenda: there is no kind of plugin 'nonsense'")
    assert done.stderr.count("\n") == 1


def test_version_and_help():
    assert tacenda_command("--version").stdout == f"tacenda {tacenda.__version__}\n"
    done = tacenda_command("--help")
    assert done.returncode == 0
    assert all(word in done.stdout for word in ("plugins", "data", "--version"))


def test_plugins_lists_the_built_in_kernels_with_status():
    rows = {
        tuple(line.split()[:5])
        for line in tacenda_command("plugins", "kernels").stdout.splitlines()
    }
    for name in ("cpu", "reference"):
        assert ("kernels", name, "tacenda", tacenda.__version__, "loaded") in rows
    unloaded = tacenda_command("plugins", "kernels", "--no-load").stdout
    assert unloaded.count("not loaded") >= 3


def test_a_kind_without_plugins_says_so(monkeypatch):
    monkeypatch.setattr(plugins, "available", lambda kind=None: [])
    assert "none is installed" in CliRunner().invoke(app, ["plugins"]).output


@pytest.mark.parametrize(
    "pairs",
    [["advanced=1", "advanced.x=2"], ["advanced.x=2", "advanced=1"], ["a.b=1", "a.b.c=2"]],
)
def test_settings_that_contradict_each_other_are_refused(pairs):
    with pytest.raises(typer.BadParameter, match="leave one of the two out"):
        settings_of(pairs)


def test_settings_of_a_group_are_gathered():
    assert settings_of(['a={"x": 1}', "a.y=2", "b=c"]) == {"a": {"x": 1, "y": 2}, "b": "c"}
