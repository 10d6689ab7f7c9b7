"""The same answers, or one clear error, wherever it runs: a full disk, a clock that goes back, no home, strict Python.

Run as a program, it prints what the saved models in a folder answer.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from children import Cases, InvalidError, Outcome, outcomes, require
from specimens import corpus, exercise, fitted, load, specimens

from tacenda import Corpus
from tacenda.errors import TacendaWarning

_NOBODY = 65534
_LIMITS = (
    0,
    1,
    100,
    101,
    1000,
    1001,
    5000,
)  # bytes of a file on a full disk; odd: something is there
_FITTED = "hmm", "recurrent", "varembed", "conditional_pmf"


def _writers() -> dict[str, Callable[[Path], object]]:
    """Everything that writes, by name: each is given a name in a folder."""
    from tacenda_lm import BrownClusters

    clusters = BrownClusters([(f"word{i}", f"{i:010b}", i) for i in range(1000)])
    return {
        **{f"save {name}": fitted(name).save for name in ("lds_int8", "kneser_ney", "mixture", "pmf")},
        "cache": lambda path: Corpus.from_sentences(corpus().sentences(), cache=path),
        **{f"checkpoints of {name}": partial(_fit, name) for name in _FITTED},
        "to_arpa": fitted("kneser_ney").to_arpa,
        "save_word2vec": fitted("sumembed").save_word2vec,
        "save clusters": clusters.save,
    }  # fmt: skip


def _fit(name: str, path: Path) -> None:
    specimens()[name].fit(checkpoints=path)


def _contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def full_disk(short: bool, folder: Path) -> Cases:
    """Write where no file may be larger than some bytes: what was there is whole, and nothing is left behind."""

    def attempt(write: Callable[[Path], object], place: Path, limit: int) -> str:
        if limit % 2:
            write(place / "new")
        before = _contents(place)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            write(place / "new")
        except Exception:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            after = _contents(place)
            # of a fit that has begun, the checkpoints so far
            expected = (
                after if before == {} and (place / "new" / "checkpoint.json").exists() else before
            )
            left = {name for name in after if expected.get(name) != after[name]}
            require(after.keys() >= before.keys() and not left, f"other files than before: {left}")
            raise
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        return "answered"

    yield from _all(folder, "at most {} bytes", attempt, _LIMITS[-2:] if short else _LIMITS)


def read_only(short: bool, folder: Path) -> Cases:
    """Write into a folder that may not be written."""

    def attempt(write: Callable[[Path], object], place: Path, mode: int) -> None:
        place.chmod(mode)
        if os.getuid() == 0:
            os.setresuid(_NOBODY, _NOBODY, 0)
        try:
            write(place / "new")
        finally:
            if os.getuid() == _NOBODY:
                os.setresuid(0, 0, 0)
            place.chmod(0o755)
        raise InvalidError("an answer where an error was due")

    # whoever is nobody may not read the Python of root: all is imported before
    for name in _FITTED:
        _fit(name, folder / f"before, {name}")
    folder.chmod(0o755)
    yield from _all(folder, "mode {:o}", attempt, (0o555,) if short else (0o555, 0o444, 0))


def clock(short: bool, folder: Path) -> Cases:
    """Write while the clock goes back by a day whenever it is read, or stands in the year 2100."""

    def attempt(write: Callable[[Path], object], place: Path, step: int) -> None:
        now = [time.time() if step else 4.2e9]

        def tell() -> float:
            now[0] -= step
            return now[0]

        own, time.time = time.time, tell
        try:
            write(place / "new")
            write(place / "new")
        finally:
            time.time = own

    yield from _all(folder, "clock, {} s back", attempt, (86_400,) if short else (86_400, 0))


def _all(folder: Path, what: str, attempt: Callable[..., object], values: tuple[int, ...]) -> Cases:
    """Try all that writes, each in a folder of its own, with each of some values."""
    names, acts = [], []
    for number, (value, (name, write)) in enumerate(
        (value, pair) for value in values for pair in _writers().items()
    ):
        (folder / str(number)).mkdir()
        names.append(f"{name}, {what.format(value)}")
        acts.append(partial(attempt, write, folder / str(number), value))
    yield from zip(names, outcomes(acts), strict=True)


#: Flags of Python, and variables: None for one that is not there.
_PYTHONS: dict[str, tuple[tuple[str, ...], dict[str, str | None]]] = {
    "as it is": ((), {}),
    "-O": (("-O",), {}),
    "-OO": (("-OO",), {}),
    "-W error": (("-W", "error"), {}),
    "-X utf8=0, LC_ALL=C": (("-X", "utf8=0"), {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}),
    "PYTHONHASHSEED=1": ((), {"PYTHONHASHSEED": "1"}),
    "PYTHONHASHSEED=2": ((), {"PYTHONHASHSEED": "2"}),
    "HOME unset": ((), {"HOME": None, "XDG_CACHE_HOME": None}),
    "HOME that is not there": ((), {"HOME": "/nowhere", "XDG_CACHE_HOME": None}),
    "TZ, LANG of elsewhere": ((), {"TZ": "Asia/Kathmandu", "LANG": "tr_TR.UTF-8"}),
}


def pythons(short: bool, folder: Path) -> Cases:
    """Use, and fit again, every model in a Python of other flags and variables: the same answers."""
    names = ("lds", "kneser_ney", "pmf") if short else tuple(specimens())
    for name in names:
        fitted(name).save(folder / name)
    wanted: dict[str, str] = {}
    chosen = ("as it is", "-O") if short else tuple(_PYTHONS)
    for what in chosen:
        flags, variables = _PYTHONS[what]
        changed = {**os.environ, **variables}
        environment = {name: value for name, value in changed.items() if value is not None}
        command = [sys.executable, *flags, __file__, str(folder), *names]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=3000
        )
        answers: dict[str, Any] = {}
        for line in done.stdout.splitlines():
            answers.update(json.loads(line))
        wanted = wanted or answers
        for name in names:
            if name not in answers:
                last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
                yield f"{name}, {what}", Outcome(f"no answer: {last:.200}", "traceback")
            elif answers[name] != wanted[name]:
                yield f"{name}, {what}", Outcome(f"it gave {answers[name]}", "wrong")
            else:
                yield f"{name}, {what}", Outcome("", "answered")


def _answers(folder: Path, names: list[str]) -> Iterator[dict[str, str]]:
    warnings.filterwarnings("ignore", category=TacendaWarning)  # sound ones, as of a small text
    for name in names:
        found = [exercise(load(folder / name, name)), exercise(specimens()[name].fit())]
        digest = hashlib.sha256(b"".join(each.tobytes() for one in found for each in one))
        yield {name: digest.hexdigest()}


SURROUNDINGS = {"full disk": full_disk, "read-only": read_only, "clock": clock, "pythons": pythons}

if __name__ == "__main__":
    for answer in _answers(Path(sys.argv[1]), sys.argv[2:]):
        print(json.dumps(answer), flush=True)
