"""The command ``tacenda`` in its own process: exit codes, and errors in one line."""

import errno
import io
import os
import signal
import subprocess
import sys
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event

import pytest
import typer
from typer.testing import CliRunner

import tacenda
from support.processes import command_line, run_python
from tacenda import plugins, store
from tacenda.cli import probing
from tacenda.cli.main import app
from tacenda.cli.options import options_of
from tacenda.cli.paths import check_file, check_output, check_text, input_text, input_texts
from tacenda.errors import ArtifactError, CorpusError, DataError, PluginError, warn


def tacenda_command(*arguments, **environment):
    return run_python("-m", "tacenda", *arguments, COLUMNS="200", NO_COLOR="1", **environment)


@pytest.fixture
def run(monkeypatch, capsys):
    return command_line(monkeypatch, capsys)


@pytest.fixture
def failing():
    """A command group one of whose commands fails with an error of ours; the other warns."""
    group = typer.Typer()

    @group.command()
    def ours():
        raise DataError("the file\n  is not there: fetch it")

    @group.command()
    def noted():
        warn("mind the gap: step back")

    plugins.register("commands", "failing", group)
    yield group
    plugins.unregister("commands", "failing")


def test_an_error_of_ours_is_one_line_on_standard_error_and_exit_1(failing, run):
    assert run("failing", "ours") == (1, "", "tacenda: the file is not there: fetch it\n")


def test_a_warning_that_is_turned_into_an_error_is_one_line(failing, run):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        err = run.refusal("failing", "noted")
    assert err.startswith("tacenda: mind the gap: step back (a warning, which")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_command_that_is_terminated_removes_its_temporary_files(failing, run, tmp_path, name):
    number = getattr(signal, name, None) or pytest.skip("there is no such signal here")

    @failing.command()
    def waiting():
        with store.temporary(tmp_path):
            os.kill(os.getpid(), number)
            signal.pause()

    before = signal.signal(number, signal.SIG_DFL)
    try:
        assert run("failing", "waiting")[0] == 128 + number
    finally:
        signal.signal(number, before)
    assert list(tmp_path.iterdir()) == []


def interrupt(**_):
    raise KeyboardInterrupt


def turn_an_interrupt_into_an_error(**_):
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        raise SystemError("a result with an exception set") from error


def lose_an_interrupt(**_):
    class Library:
        def __del__(self):  # as in code in C, Python drops what is raised here
            raise KeyboardInterrupt

    Library()
    Event().wait(60)


@pytest.mark.parametrize("act", [interrupt, turn_an_interrupt_into_an_error, lose_an_interrupt])
def test_an_interrupt_ends_the_command_without_a_traceback_whatever_libraries_do(
    run, monkeypatch, act
):
    monkeypatch.setattr("tacenda.cli.main.app", act)
    assert run() == (130, "", "")


def test_an_interrupt_while_the_command_line_is_imported_shows_no_traceback(write_file, tmp_path):
    write_file("typer.py", "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = run_python("-m", "tacenda", "--version", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_without_a_place_for_notes_and_errors_the_output_stays_clean(failing, run, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert run("failing", "ours")[:2] == (1, "")


def test_a_note_that_cannot_be_written_does_not_end_a_command(failing, run, monkeypatch):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    assert run("failing", "noted")[0] == 0


def test_closed_standard_input_is_a_clear_error(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(CorpusError, match="standard input is closed: name a file"):
        list(input_text(Path("-"), "utf-8", "strict"))


@pytest.mark.parametrize("timeout", ["inf", "nan", "1e400", "1e12", "0"])
def test_a_time_limit_that_no_clock_can_keep_is_refused(timeout):
    for command in (["plugins"], ["data", "fetch", "english-ewt"]):
        found = CliRunner().invoke(app, [*command, "--timeout", timeout])
        assert (found.exit_code, "Invalid value for '--timeout'" in found.output) == (2, True)


def test_the_start_of_a_child_process_takes_no_time_of_a_plugin(monkeypatch):
    poll, receive, received = Connection.poll, Connection.recv_bytes, []

    def have(pipe, seconds):
        # until the child has sent something, the time of a plugin is too short
        is_long = bool(received) or seconds == probing._SECONDS_TO_START
        return is_long and poll(pipe, 600)

    monkeypatch.setattr(Connection, "poll", have)
    keep = lambda pipe: received.append(receive(pipe)) or received[-1]  # noqa: E731
    monkeypatch.setattr(Connection, "recv_bytes", keep)
    listed = CliRunner().invoke(app, ["plugins", "datasets"]).output
    assert {line.split()[4] for line in listed.splitlines()[1:]} == {"loaded"}


def test_a_child_process_that_ends_before_it_loads_a_plugin_blames_none(run, monkeypatch):
    monkeypatch.setattr(probing, "_report", os._exit)  # which refuses the arguments
    assert "did not start: use --no-load" in run.refusal("plugins", "datasets")


def test_a_plugin_of_this_process_is_listed(failing):
    listed = CliRunner().invoke(app, ["plugins", "commands"]).output
    (line,) = [line for line in listed.splitlines() if " failing " in line]
    assert line.endswith("loaded")


def test_the_traceback_is_there_for_those_who_ask(failing, run, monkeypatch):
    monkeypatch.setenv("TACENDA_DEBUG", "1")
    with pytest.raises(DataError):
        run("failing", "ours")


@pytest.mark.parametrize("bug", [ZeroDivisionError, NotImplementedError])
def test_a_bug_is_not_disguised(failing, run, bug):
    @failing.command()
    def careless():
        raise bug

    with pytest.raises(bug):
        run("failing", "careless")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device"), "reading or writing failed: No space left"),
        (PermissionError(13, "Permission denied", "x.txt"), "x.txt cannot be used: Permission"),
        (UnicodeEncodeError("ascii", "a\u00e9", 1, 2, "no"), "'\\xe9': set PYTHONIOENCODING=utf-8"),
        (NotImplementedError("Mine has no deviations"), "tacenda: Mine has no deviations"),
        (MemoryError("unable to allocate"), "not enough memory (MemoryError: unable to allocate)"),
    ],
)
def test_what_the_machine_refuses_is_one_line(failing, run, monkeypatch, error, said):
    @failing.command()
    def refused():
        raise error

    assert said in run.refusal("failing", "refused")
    monkeypatch.setenv("TACENDA_DEBUG", "1")
    with pytest.raises(type(error)):
        run("failing", "refused")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_disk_is_one_line():
    command = [sys.executable, "-m", "tacenda", "plugins", "--no-load"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "tacenda: reading or writing failed: No space left on device\n"


def test_only_regular_files_are_replaced(tmp_path, monkeypatch):
    file = tmp_path / "file"
    check_file(file, False)
    file.write_text("x")
    check_file(file, True)
    with pytest.raises(ArtifactError, match="--force"):
        check_file(file, False)
    with pytest.raises(ArtifactError, match="is a folder"):
        check_file(tmp_path, True)
    for other in (Path(os.devnull), Path("/dev/stdout")):
        if other.exists():
            why = "(is not a regular file|receives the output of this command)"
            with pytest.raises(ArtifactError, match=f"{why} and .*redirect") as caught:
                check_file(other, True)
            assert "--force" not in str(caught.value)
    with file.open() as printed, monkeypatch.context() as patched:
        patched.setattr(os, "fstat", lambda _, fstat=os.fstat: fstat(printed.fileno()))
        with pytest.raises(ArtifactError, match="file receives the output of this command"):
            check_file(file, True)


def test_a_folder_that_cannot_be_written_to_is_found_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: (Path(path), mode) != (tmp_path, os.W_OK))
    for check in (check_file, check_output):
        with pytest.raises(ArtifactError, match="cannot be written to"):
            check(tmp_path / "new", True)


def test_a_folder_with_the_model_of_another_library_is_refused_even_with_force(tmp_path):
    (tmp_path / "model.json").write_text('{"class_name": "Sequential"}')
    with pytest.raises(ArtifactError, match=r"its model.json is not Tacenda's: choose another"):
        check_output(tmp_path, True)


def test_folders_that_let_nobody_in_or_list_nothing_are_errors_of_ours(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "iterdir", refuse)
        with pytest.raises(CorpusError, match="check its name"):
            input_text(tmp_path / "text", "utf-8", "strict")
        with pytest.raises(ArtifactError, match="cannot be read"):
            check_output(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "lstat", refuse)
        patched.setattr(os, "stat", refuse)
        for check, error in (
            (check_text, CorpusError),
            (lambda path: input_texts([f"{path}*"], "utf-8", "strict"), CorpusError),
            (lambda path: check_file(path, True), ArtifactError),
            (check_output, ArtifactError),
        ):
            with pytest.raises(error, match="no access"):
                check(tmp_path / "name")


def test_a_glob_with_too_long_a_name_is_an_error_of_ours():
    with pytest.raises(CorpusError, match="too long"):
        input_texts(["*" * 300], "utf-8", "strict")


def test_a_glob_that_finds_a_file_without_access_is_an_error_of_ours(tmp_path, monkeypatch):
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "a.txt").touch()

    def refusing(function):
        def call(path, *arguments, **keywords):
            if str(path).startswith(str(tmp_path / "closed" / "a")):
                raise PermissionError(errno.EACCES, "Permission denied")
            return function(path, *arguments, **keywords)

        return call

    for name in ("stat", "lstat"):
        monkeypatch.setattr(os, name, refusing(getattr(os, name)))
    with pytest.raises(CorpusError, match="no access"):
        input_texts([str(tmp_path / "*" / "*.txt")], "utf-8", "strict")


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
    listed = tacenda_command("plugins", "kernels").stdout
    rows = {tuple(line.split()[:5]) for line in listed.splitlines()}
    for name in ("cpu", "reference"):
        assert ("kernels", name, "tacenda", tacenda.__version__, "loaded") in rows
    unloaded = tacenda_command("plugins", "kernels", "--no-load").stdout
    assert unloaded.count("not loaded") >= 3


@pytest.mark.parametrize(
    ("kind", "home"), [("embedders", "tacenda-embeddings"), ("recommenders", "tacenda-surprise")]
)
def test_a_kind_without_plugins_names_the_package_that_has_some(monkeypatch, kind, home):
    monkeypatch.setattr(plugins, "records", list)
    told = f"none is installed; the package {home} has some"
    assert told in CliRunner().invoke(app, ["plugins", kind]).output
    with pytest.raises(PluginError, match=told):
        plugins.get(kind, "mine")
    for arguments in (["plugins"], ["plugins", "kernels"]):
        assert "(none is installed)" in CliRunner().invoke(app, arguments).output


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (["advanced=1", "advanced.x=2"], "gives the group advanced the value 1"),
        (["advanced.x=2", "advanced=1"], "has set already"),
        (["a.b=1", "a.b.c=2"], "gives the group b the value 1"),
        (['w={"a":1}', 'w={"a":2}'], "sets w.a, which --set has set already"),
        (['w={"a":1}', "w.a=2"], "sets w.a, which --set has set already"),
        (["n_states=1", "n-states=2"], "sets n_states, which --set has set already"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(pairs, said):
    with pytest.raises(typer.BadParameter, match=f"{said}.*leave out one of the two"):
        options_of(pairs)


def test_an_option_of_the_command_and_of_set_is_refused():
    assert options_of(["lr=1", "order=2"], order=None) == {"lr": 1, "order": 2}
    with pytest.raises(typer.BadParameter, match="command sets order, which --set has set"):
        options_of(["order=2"], order=3)


def test_settings_of_a_group_are_gathered():
    assert options_of(['a={"x": 1}', "a.y=2", "b=c"]) == {"a": {"x": 1, "y": 2}, "b": "c"}
    assert options_of(["a.y=2", 'a={"x": 1}']) == {"a": {"x": 1, "y": 2}}
    twice = '{"x": 1, "x": 2}'  # no JSON, so that the model refuses it
    assert options_of([f"a={twice}"]) == {"a": twice}
