"""Programs in processes of their own, and the command line in this one."""

import ast
import multiprocessing
import os
import runpy
import subprocess
import sys
from functools import partial

import pytest

from tacenda import cli


def run_python(*arguments, cwd=None, **environment):
    """Run Python with these arguments; a variable of the environment that is None is taken out of it."""
    variables = {k: v for k, v in {**os.environ, **environment}.items() if v is not None}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True)


def output_of(*arguments, **more):
    """What Python prints with these arguments, where it ends well."""
    done = run_python(*arguments, **more)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    return done.stdout


def imports_of(modules):
    """The modules of ours, and the heavy ones of others, that a process with spaCy imports with these."""
    code = (
        "import importlib, sys, spacy; before = set(sys.modules)\n"
        f"for name in {sorted(modules)}: importlib.import_module(name)\n"
        "heavy = {'numba', 'scipy', 'safetensors', 'typer'}\n"
        "print({x for x in set(sys.modules) - before if 'tacenda' in x or x in heavy})"
    )
    return ast.literal_eval(output_of("-c", code))


def run_here(program, *arguments):
    """Run a script, or a module after ``-m``, in this process, which saves imports; it must exit with status 0."""
    start = runpy.run_path
    if program == "-m":
        program, *arguments = arguments
        start = partial(runpy.run_module, alter_sys=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", [program, *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            start(program, run_name="__main__")
    assert not end.value.code, program


class command_line:  # noqa: N801 - it is called
    """Runs ``tacenda`` here, with these arguments first."""

    def __init__(self, monkeypatch, capsys, *first):
        self.monkeypatch, self.capsys, self.first = monkeypatch, capsys, first

    def __call__(self, *arguments):
        """Return exit status, standard output and standard error."""
        self.monkeypatch.setattr(sys, "argv", ["tacenda", *map(str, (*self.first, *arguments))])
        self.monkeypatch.setenv("TACENDA_PROGRESS", "0")
        with pytest.raises(SystemExit) as end:
            cli.start()
        return end.value.code or 0, *self.capsys.readouterr()

    def well(self, *arguments):
        """Expect status 0; return standard output and standard error."""
        status, out, err = self(*arguments)
        assert status == 0, err
        return out, err

    def refusal(self, *arguments):
        """Expect status 1, nothing on standard output and one line of error, which is returned."""
        status, out, err = self(*arguments)
        assert (status, out, err.count("\n")) == (1, "", 1), err
        return err


@pytest.fixture
def printed(run):
    """What the command prints with these arguments, where it ends well."""
    return lambda *arguments: run.well(*arguments)[0]


@pytest.fixture
def refused(run):
    """What the command says on standard error where it refuses these arguments: no traceback, and no output."""

    def refused(*arguments, status=1):
        found, out, err = run(*arguments)
        assert (found, out) == (status, ""), arguments
        assert "Traceback" not in err
        return err

    return refused


@pytest.fixture
def no_child_left():
    """Kill child processes that the test leaves behind."""
    others = set(multiprocessing.active_children())  # such as workers that joblib keeps for later
    yield
    for child in set(multiprocessing.active_children()) - others:
        child.kill()
