import os
import shutil

import pytest

from support.processes import output_of, run_python

MODULE = """
from tacenda.kernels.machinery.compiled import njit

@njit
def twice(x):
    return 2 * x

@njit(fastmath={"contract"})
def thrice(x):
    return 3 * x
"""


def run(folder, cache, *names, **variables):
    """Import a module, or some of these names, in a fresh process; without a ``__pycache__`` it can write to."""
    folder.mkdir(exist_ok=True)
    names = names or ("module",)
    for name in names:
        if not (folder / f"{name}.py").exists():  # a cache is of a file with its time
            (folder / f"{name}.py").write_text(MODULE)
    if not (folder / "__pycache__").exists():
        (folder / "__pycache__").write_text("a file where the folder should be")
    environment = dict.fromkeys(k for k in os.environ if k.startswith("NUMBA"))
    places = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    environment |= {"PYTHONPATH": places, "XDG_CACHE_HOME": str(cache), "HOME": str(cache)}
    environment |= variables
    code = f"import {', '.join(names)}\nfor module in [{', '.join(names)}]:\n    "
    code += "print(module.twice(2), module.thrice(2), module.twice.stats.cache_hits)"
    return run_python("-c", code, **environment)


def test_compiled_code_goes_to_the_user_s_cache_where_the_package_cannot_be_written(tmp_path):
    """That it compiles is said once, where progress is shown, and only then."""
    cache = tmp_path / "cache"
    cache.mkdir()
    silent = run(tmp_path / "package", cache, TACENDA_PROGRESS="0")
    assert silent.stdout.split() == ["4", "6", "Counter()"]
    assert not silent.stderr
    assert list(cache.rglob("*.nbi"))
    shutil.rmtree(cache)
    cache.mkdir()
    first = run(tmp_path / "package", cache, TACENDA_PROGRESS="1")
    assert first.stderr == "compiling kernels (once, for this and later runs)\n"
    second = run(tmp_path / "package", cache, TACENDA_PROGRESS="1")
    assert "1})" in second.stdout
    assert not second.stderr


def test_compiled_code_is_stale_when_a_function_in_another_file_has_changed(tmp_path):
    """With the times of all files what they were, as in a wheel: only what is in them tells."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    imports = "from tacenda.kernels.machinery.compiled import njit\n"
    (package / "caller.py").write_text(
        f"{imports}from package.callee import factor\n\n@njit\ndef scaled(x):\n    return factor() * x\n"
    )
    found = []
    for factor in (2, 2, 3, 3):
        callee = package / "callee.py"
        callee.write_text(f"{imports}\n@njit\ndef factor():\n    return {factor}\n")
        os.utime(callee, (0, 0))
        code = "from package.caller import scaled; print(scaled(5), sum(scaled.stats.cache_hits.values()))"
        environment = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        out = output_of("-c", code, PYTHONDONTWRITEBYTECODE="1", **environment)
        found.append(out.split())
    assert found == [["10", "0"], ["10", "1"], ["15", "0"], ["15", "1"]]
    # an index and one piece of code
    assert len(list((tmp_path / "cache").rglob("caller.scaled*"))) == 2


def test_without_any_cache_it_still_runs_and_says_so(tmp_path):
    """Nor does it promise that this was the last time."""
    (tmp_path / "cache").write_text("not a folder")
    found = run(tmp_path / "package", tmp_path / "cache", TACENDA_PROGRESS="1")
    assert found.stdout.split()[:2] == ["4", "6"]
    assert found.stderr.count("set NUMBA_CACHE_DIR") == 1
    assert found.stderr.splitlines().count("compiling kernels") == 1


def test_other_people_s_functions_are_not_announced(tmp_path):
    code = "import numba, tacenda.kernels.machinery.compiled; print(numba.njit(lambda x: 2 * x)(2))"
    found = run_python("-c", code, TACENDA_PROGRESS="1")
    assert found.stdout == "4\n"
    assert not found.stderr


def empty(data):
    return b""


def cut(data):
    return data[: len(data) // 2]


def zeroed(data):
    """Zeros in the second half, as of a file whose blocks were never written."""
    return data[: len(data) // 2] + bytes(len(data) - len(data) // 2)


def turned(data):
    """One bit in the middle of what was compiled."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def test_damaged_files_of_the_cache_are_compiled_again(tmp_path):
    """Each kind of damage to files of each kind, of a module of its own."""
    damages = {
        f"{damage.__name__}_{suffix}": (damage, suffix)
        for damage in (empty, cut, zeroed, turned)
        for suffix in ("nbi", "nbc")
    }
    (tmp_path / "cache").mkdir()
    run(tmp_path / "package", tmp_path / "cache", *damages)
    for name, (damage, suffix) in damages.items():
        files = list((tmp_path / "cache").rglob(f"{name}.*.{suffix}"))
        assert len(files) == 2
        for file in files:
            file.write_bytes(damage(file.read_bytes()))
    healing = run(tmp_path / "package", tmp_path / "cache", *damages)
    assert healing.stdout.splitlines() == ["4 6 Counter()"] * len(damages)
    assert not healing.stderr
    healed = run(tmp_path / "package", tmp_path / "cache", *damages)
    for line in healed.stdout.splitlines():
        assert line.split()[:2] == ["4", "6"]
        assert "1})" in line
    assert len(healed.stdout.splitlines()) == len(damages)


def test_a_cache_that_cannot_be_written_any_more_is_said_and_stops_nothing(tmp_path):
    """As root may write everywhere, a folder has the name of the file instead."""
    (tmp_path / "cache").mkdir()
    run(tmp_path / "package", tmp_path / "cache")
    for file in list((tmp_path / "cache").rglob("*.nbi")):
        file.unlink()
        (file / "in the way").mkdir(parents=True)
    found = run(tmp_path / "package", tmp_path / "cache")
    assert found.stdout.split()[:2] == ["4", "6"]
    assert "NUMBA_CACHE_DIR" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    ("variable", "value"), [("NUMBA_DISABLE_JIT", "1"), ("NUMBA_NUM_THREADS", "0")]
)
def test_variables_under_which_nothing_can_be_compiled_are_named(tmp_path, variable, value):
    code = """
from tacenda.errors import KernelError
try:
    import tacenda.kernels.machinery.compiled
except KernelError as error:
    print(error)
"""
    found = run_python("-c", code, **{variable: value})
    assert "NUMBA_" in found.stdout
    assert ": unset it" in found.stdout or ": check its installation" in found.stdout
