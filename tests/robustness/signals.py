"""Commands that are told to end at random moments: nothing is left behind, and the same command then does its work."""

from __future__ import annotations

import atexit
import functools
import hashlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from children import SECONDS, Cases, outcome_of, require
from kills import arrays_of, served_slowly
from specimens import corpus, fitted

from tacenda import artifact, plugins, store
from tacenda.cli import start
from tacenda.datasets import DatasetSpec
from tacenda.datasets.fetching import MANIFEST

#: Signals that are sent, in turn: the second Ctrl-C does not wait for the end of a step.
_SIGNALS = (signal.SIGINT,), (signal.SIGTERM,), (signal.SIGINT, signal.SIGINT), (signal.SIGHUP,)
_TEXT, _BOTH = "--text text", "--text text --valid valid"
_WIDE = "--set width=16 --set epochs=8"
_SAMPLED = "--set n_factors=4 --set burn_in=4 --set n_samples=20"

#: What is run, by name. {out} is the output, {kept} a folder for checkpoints.
COMMANDS = {
    "embed fit lds": f"embed fit {_TEXT} --n-states 8 -o {{out}}",
    "embed fit morphological_lds": f"embed fit {_TEXT} --model morphological_lds --set lds.n_states=8 -o {{out}}",
    "embed fit sumembed": f"embed fit {_TEXT} --model sumembed -o {{out}}",
    "embed fit varembed": f"embed fit {_BOTH} --model varembed {_WIDE} --checkpoints {{kept}} -o {{out}}",
    "embed fit vectors": f"embed fit {_TEXT} --model vectors --set lds.n_states=8 -o {{out}}",
    "embed apply": "embed apply lds text -o {out}.npz",
    "embed apply, printed": "embed apply lds text",
    "embed compact": "embed compact lds --text valid -o {out}",
    "embed export": "embed export sumembed {out}.txt",
    "embed vectors": "embed vectors sumembed {out}",
    "embed init-config": "embed init-config --lds lds --vectors sumembed {out}.cfg",
    "lm fit kneser_ney": f"lm fit {_BOTH} -o {{out}}",
    "lm fit unigram_cache": f"lm fit {_TEXT} --model unigram_cache -o {{out}}",
    **{
        f"lm fit {name}": f"lm fit {_BOTH} --model {name} {options} --checkpoints {{kept}} -o {{out}}"
        for name, options in {
            "lbl": _WIDE,
            "hlbl": _WIDE,
            "recurrent": f"{_WIDE} --set streams=8",
            "neural_cache": "--set hlbl={\"width\":8,\"epochs\":4}",
            "frbm": "--set features=8 --set hidden=8 --set epochs=4",
            "temporal_frbm": "--set features=8 --set hidden=8 --set epochs=4",
            "hmm": "--set n_states=8 --set epochs=8",
            "vlhmm": "--set n_classes=8 --set states_per_class=8 --set epochs=8",
            "state_space": "--set order=3 --set internal=6 --set features=8 --set epochs=4",
        }.items()
    },
    "lm surprisal": "lm surprisal kneser_ney text -o {out}.csv",
    "lm compact": "lm compact kneser_ney --text valid -o {out}",
    "lm score": "lm score hlbl text",
    "lm perplexity": "lm perplexity hlbl text",
    "lm generate": "lm generate hlbl -n 50",
    "lm mix": "lm mix kneser_ney hlbl --valid valid -o {out}",
    "lm mix --adaptive": "lm mix kneser_ney hlbl --valid valid --adaptive -o {out}",
    "lm cache": "lm cache hlbl -o {out}",
    "lm from-arpa": "lm from-arpa model.arpa -o {out}",
    "lm to-arpa": "lm to-arpa kneser_ney {out}.arpa.gz",
    "lm clusters": f"lm clusters {_TEXT} --n-classes 8 -o {{out}}.txt",
    **{
        f"ratings fit {name}": f"ratings fit ratings --model {name} {options} -o {{out}}"
        for name, options in {
            "bias": "",
            "pmf": "--checkpoints {kept}",
            "conditional_pmf": "--checkpoints {kept}",
            "bayesian_pmf": f"{_SAMPLED} --checkpoints {{kept}}",
            "conditional_bayesian_pmf": f"{_SAMPLED} --checkpoints {{kept}}",
            "rbm": "--checkpoints {kept}",
            "conditional_rbm": "--checkpoints {kept}",
            "implicit_mf": "--checkpoints {kept}",
        }.items()
    },
    "ratings evaluate": "ratings evaluate ratings --model pmf --model bias",
    "ratings recommend": "ratings recommend pmf --user u1 --user u2",
    "package": "package lds --name made-up --license CC0-1.0 -o {out}",
    "data fetch": "data fetch toy -o {out}",
    "data list": "data list",
    "plugins": "plugins datasets",
    "models": "models",
}  # fmt: skip
_ONLY_NEW = "embed vectors"  # which replaces nothing
_SHORT = "embed apply", "lm fit hmm", "ratings fit pmf"


class _Run(NamedTuple):
    """What came of a command."""

    status: int
    printed: str
    said: str


class _Inputs(NamedTuple):
    """What commands read: two folders that hold the same names with other contents, and a dataset."""

    folders: tuple[Path, Path]
    spec: DatasetSpec


def scenarios(short: bool) -> list[str]:
    """The names of the commands."""
    return list(_SHORT if short else COMMANDS)


def signalled(name: str, n: int, seed: int, folder: Path) -> Cases:
    """Send signals to a command ``n`` times, every second time with an older output in its place."""
    rng = np.random.default_rng([seed, *name.encode()])
    with served_slowly({"toy/one.txt": os.urandom(2_000_000)}) as spec:
        inputs = _Inputs(_made(), spec)
        old, new = (folder / each for each in ("old", "new"))
        for place, data in zip((new, old), inputs.folders, strict=True):
            done = _run(name, place, inputs.spec, data)  # the first one compiles
            require(not done.status, f"a failure of {name} left alone: {done.said}")
        shutil.rmtree(new)
        begun = time.monotonic()
        left_alone = _run(name, new, inputs.spec, inputs.folders[0])
        took = time.monotonic() - begun
        wanted = {"old": _contents(old), "new": _contents(new), None: None}
        for i, signals in zip(range(n), itertools.cycle(_SIGNALS)):
            replaces = wanted["old"] and name != _ONLY_NEW
            before = "old" if replaces and i % 2 != i // 4 % 2 else None
            place, after = folder / f"{i}", rng.uniform(0, 0.8 * took)
            if before:
                shutil.copytree(old / "result", place / "result")
            attempt = functools.partial(
                _once, name, place, inputs, before, wanted, left_alone, after, signals
            )
            names = " ".join(each.name for each in signals)
            yield f"{names} after {after:.3f} of {took:.3f} s, {before=}", outcome_of(attempt)
            shutil.rmtree(place, ignore_errors=True)


def _once(
    name: str, place: Path, inputs: _Inputs, before: str | None, wanted: dict[Any, Any],
    left_alone: _Run, after: float, signals: tuple[signal.Signals, ...],
) -> str:  # fmt: skip
    command = (name, place, inputs.spec, inputs.folders[0])
    done = _run(*command, force=bool(before), after=after, signals=signals)
    require(
        done.status in (0, -signals[0], 128 + signals[0]), f"exit status {done.status}: {done.said}"
    )
    require(not _traceback(done.said), f"a traceback: {done.said}")
    found = _contents(place)
    require(
        found in (wanted[before], wanted["new"]),
        f"neither the old output nor the new (status {done.status}): {_names(place)}",
    )
    require(found == wanted["new"] or done.status != 0, "no output of a command that succeeded")
    require(left_alone.printed.startswith(done.printed) or name == "data fetch", "other output")
    _require_clean(place)
    if name == _ONLY_NEW:
        shutil.rmtree(place / "result")
    again = _run(*command, force=found is not None)
    require(not again.status, f"a failure of the same command again: {again.said}")
    require(_contents(place) == wanted["new"], "another output than without signals")
    _require_clean(place)
    return "answered" if done.status else "harmless"


def _require_clean(place: Path) -> None:
    """No temporary files, and no file in a model that its manifest does not name; an empty folder may stay."""
    left = [path for path in (place / "tmp").iterdir() if "torchinductor" not in path.name]
    left += [path for path in (place / "result").iterdir() if not path.name.startswith("out")]
    for path in place.rglob("*"):
        if store.is_temporary(path.name):
            left.append(path)
        if path.name == "model.json":
            head = json.loads(path.read_text(encoding="utf-8"))
            nested = [each["folder"] for each in head["nested"].values()]
            named = {path.name, *head["files"], *nested}
            left += [each for each in path.parent.iterdir() if each.name not in named]
    require(not left, f"files left behind: {sorted(str(path.relative_to(place)) for path in left)}")


def _run(
    name: str, place: Path, spec: DatasetSpec, inputs: Path, *, force: bool = False,
    after: float | None = None, signals: tuple[signal.Signals, ...] = (),
) -> _Run:  # fmt: skip
    """Run a command in a child that has imported and compiled already, and send it signals."""
    for each in ("tmp", "result"):
        (place / each).mkdir(parents=True, exist_ok=True)
    text = COMMANDS[name].replace("{out}", str(place / "result" / "out"))
    text = text.replace("{kept}", str(place / "kept"))
    forced = force and name not in (_ONLY_NEW, "package")  # which have no such option
    with (place / "stdout").open("w+b") as out, (place / "stderr").open("w+b") as err:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            os.chdir(inputs)
            os.environ.update(TMPDIR=str(place / "tmp"), TACENDA_PROGRESS="0")
            tempfile.tempdir = None
            sys.argv = ["tacenda", *text.split(), *["--force"] * forced]
            plugins.register("datasets", spec.name, spec)
            _main()
    deadline = time.monotonic() + SECONDS
    if after is not None:
        time.sleep(after)
        for number in signals:
            os.kill(child, number)
            time.sleep(0.02)
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        time.sleep(0.002)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
    texts = [(place / each).read_text("utf-8", "replace") for each in ("stdout", "stderr")]
    status = os.waitstatus_to_exitcode(ended[1])
    return _Run(status, *(text.replace(str(place), "PLACE") for text in texts))


def _main() -> NoReturn:
    """The command line, in a child, which it ends."""
    status = 70
    try:
        start()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _traceback(text: str) -> bool:
    """Whether there is a traceback of more than Python's own start."""
    return "Exception ignored" in text or ("Traceback" in text and "tacenda" in text)


def _names(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))[:20]


def _contents(place: Path) -> Any:
    """What is in the output of a command: arrays of models, and the bytes of other files."""
    found: dict[str, str] = {}
    paths = sorted((place / "result").rglob("*"))
    models = [path.parent for path in paths if path.name == "model.json"]
    for path in paths:
        name = str(path.relative_to(place))
        if path in models and not any(path.is_relative_to(each) for each in models if each != path):
            arrays = (each.tobytes() for each in arrays_of(artifact.read(path)))
            found[name] = " ".join(hashlib.sha256(each).hexdigest() for each in arrays)
        elif path.name == ".toy.lock" or ".toy.downloads" in path.parts:
            continue  # which the next fetch goes on with
        elif path.is_file() and not any(path.is_relative_to(each) for each in models):
            found[name] = "" if path.name == MANIFEST else store.sha256_of(path)
    return found or None


@functools.cache
def _made() -> tuple[Path, Path]:
    """Write the inputs, and others of the same names, once for all commands."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    found = folder / "one", folder / "two"
    for i, place in enumerate(found):
        place.mkdir(parents=True)
        words = corpus(i).vocabulary.decode
        lines = [" ".join(words(ids)) for ids in corpus(i).sentences()]
        (place / "text").write_text("\n".join(lines * 5) + "\n", encoding="utf-8")
        (place / "valid").write_text("\n".join(lines[::-3]) + "\n", encoding="utf-8")
        rows = np.random.default_rng(i).integers((60, 40, 5), size=(600, 3))
        text = {f"u{user}\ti{item}": f"{value + 1}" for user, item, value in rows}
        ratings = "".join(f"{pair}\t{value}\n" for pair, value in text.items())
        (place / "ratings").write_text(ratings, encoding="utf-8")
        for name in ("lds", "sumembed", "kneser_ney", "hlbl"):
            fitted(name).save(place / name)
        fitted("kneser_ney").to_arpa(place / "model.arpa")
        command = [sys.executable, "-m", "tacenda", "ratings", "fit", "ratings"]
        subprocess.run(
            [*command, "--model", "pmf", "-o", "pmf"], cwd=place, check=True, capture_output=True
        )
    return found
