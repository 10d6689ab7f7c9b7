"""How many changes of each model's mathematics its own tests notice (mutation testing with cosmic-ray).

    python -m benchmarks.mutation [--model LDS ...] [--mutants 25] [--survivors]

A mutant is the code with one operator, comparison, number or loop changed, at a place drawn at random from the files
that hold a model's mathematics. It is killed if a test of the model fails or takes too long. The files are changed in
a checkout under ``benchmarks/.cache/mutation``, never in the working tree. A run that was interrupted goes on where it
stopped, at the commit where it began, and one with more mutants keeps those that it has; ``--survivors`` tests again,
with the tests of the last commit, the mutants that survived. Delete the folder to start afresh.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import TestOutcome, WorkItem, WorkResult

from benchmarks import reporting

ROOT = Path(__file__).parent.parent
FOLDER = Path(__file__).parent / ".cache" / "mutation"
TREE = FOLDER / "tree"
SEED = 0
MUTANTS = 25

# Unions of types, decorators, the classes of errors and what only guards a zip are no mathematics.
_LEFT_OUT = ("BitOr", "RemoveDecorator", "ExceptionReplacer")
_GUARD = "strict="


# Mutants that change nothing, by the line they make: looked at one by one.
EQUIVALENT = {
    "if ids.dtype < np.int32:  # int32 ids are checked by the look-up itself": (
        "the ids always come from a vocabulary and are int32"
    ),
    "n_words = min(len(context), order - 0)": "callers cut contexts to order - 1 words",
    "n_words = min(len(context), order // 1)": "likewise",
    "for b in range(a ^ 1, len(loss)):": "losses on and below the diagonal are infinite",
    "if side_offsets is not None or side_ids is not None:": "they come together or not at all",
    "_CG_STEPS = 31": "the conjugate gradients have converged before",
}


class Target(NamedTuple):
    """The files of a model, below ``packages``, and of its tests, those of kernels first, which are the quickest."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


_KERNELS = "tacenda/src/tacenda/kernels"
_KERNEL_TESTS = "tacenda/tests/kernels"
_LDS, _VAREMBED = (f"tacenda-embeddings/src/tacenda_embeddings/{n}" for n in ("lds", "varembed"))
_LDS_TESTS, _VAREMBED_TESTS = (f"tacenda-embeddings/tests/{n}" for n in ("lds", "varembed"))
_LM, _LM_TESTS = "tacenda-lm/src/tacenda_lm", "tacenda-lm/tests"
_RATINGS, _RATING_TESTS = "tacenda-surprise/src/tacenda_surprise", "tacenda-surprise/tests"


def _files(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}.py" for name in names)


TARGETS = {
    "LDS": Target(
        (
            *_files(_LDS, "learning", "smoother", "steady_state"),
            *_files(f"{_KERNELS}/dynamics/lagged_counts", "naive", "cpu"),
            *_files(f"{_KERNELS}/dynamics/linear_recurrence", "naive", "cpu"),
            *_files(f"{_KERNELS}/dynamics/modal_recurrence", "naive", "cpu"),
        ),
        (
            *_files(_KERNEL_TESTS, "test_lagged_counts", "test_linear_recurrence"),
            *_files(_KERNEL_TESTS, "test_modal_recurrence"),
            _LDS_TESTS,
        ),
    ),
    "VarEmbed": Target(
        _files(_VAREMBED, "training", "initial_vectors", "morphemes", "learning"),
        _files(
            _VAREMBED_TESTS,
            *("test_bernoulli", "test_objective", "test_initial_vectors", "test_morphemes"),
            "test_varembed_model",
        ),
    ),
    "SumEmbed": Target(
        _files(_VAREMBED, "model", "fitted"),
        _files(
            _VAREMBED_TESTS, "test_objective", "test_varembed_model", "test_varembed_conformance"
        ),
    ),
    "KneserNey": Target(
        _files(f"{_LM}/ngram", "smoothing", "counts", "kneser_ney", "table", "lookup"),
        (f"{_LM_TESTS}/ngram",),
    ),
    "LBL and HLBL": Target(
        (
            *_files(f"{_LM}/log_bilinear", "hlbl", "lbl"),
            *_files(f"{_LM}/log_bilinear", "trees", "tree_building"),
            *_files(f"{_KERNELS}/log_bilinear/tree_softmax", "naive", "cpu", "codes"),
            *_files(f"{_KERNELS}/log_bilinear/context_sum", "naive", "cpu"),
        ),
        (
            *_files(_KERNEL_TESTS, "test_tree_softmax", "test_context_sum"),
            f"{_LM_TESTS}/log_bilinear",
        ),
    ),
    "FRBM and TemporalFRBM": Target(
        (
            *_files(_LM, "boltzmann"),
            *_files(f"{_KERNELS}/boltzmann/hidden_sums", "naive", "cpu"),
        ),
        (*_files(_KERNEL_TESTS, "test_hidden_sums"), f"{_LM_TESTS}/boltzmann"),
    ),
    "HMM and VLHMM": Target(
        (
            *_files(f"{_LM}/hidden_markov", "hmm", "vlhmm", "tables", "training"),
            *_files(f"{_KERNELS}/hidden_markov/block", "naive", "cpu"),
            *_files(f"{_KERNELS}/hidden_markov/block_softmax", "naive", "cpu"),
        ),
        (
            *_files(_KERNEL_TESTS, "test_hmm"),
            *_files(f"{_LM_TESTS}/hidden_markov", "test_hmm", "test_vlhmm"),
        ),
    ),
    "Mixture": Target(_files(_LM, "mixture", "mixture_weights"), _files(_LM_TESTS, "test_mixture")),
    "Brown clusters": Target(
        _files(f"{_LM}/hidden_markov", "brown", "word_classes"),
        _files(f"{_LM_TESTS}/hidden_markov", "test_brown", "test_classes"),
    ),
    "PMF": Target(
        (
            *_files(_RATINGS, "sgd", "factorization"),
            *_files(f"{_KERNELS}/ratings/solves", "naive", "cpu"),
        ),
        (
            *_files(_KERNEL_TESTS, "test_rating_solves"),
            *_files(f"{_RATING_TESTS}/factorization", "test_map_models", "test_going_on"),
        ),
    ),
    "ConditionalPMF": Target(
        (
            *_files(_RATINGS, "catalogue", "pmf"),
            *_files(f"{_KERNELS}/ratings/sgd", "naive", "cpu"),
        ),
        (
            *_files(_KERNEL_TESTS, "test_rating_sgd"),
            *_files(f"{_RATING_TESTS}/factorization", "test_map_models", "test_going_on"),
        ),
    ),
    "BayesianPMF": Target(
        _files(_RATINGS, "gibbs", "samples", "bayesian"),
        (f"{_RATING_TESTS}/factorization",),
    ),
    "RBM and ConditionalRBM": Target(
        (
            *_files(_RATINGS, "boltzmann", "divergence", "rbm"),
            *_files(f"{_KERNELS}/ratings/boltzmann", "naive", "cpu"),
        ),
        (
            *_files(_KERNEL_TESTS, "test_rating_boltzmann"),
            *_files(_RATING_TESTS, "test_boltzmann"),
        ),
    ),
    "Blend": Target(_files(_RATINGS, "blend"), _files(_RATING_TESTS, "test_blend")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", nargs="*", default=list(TARGETS), choices=TARGETS)
    parser.add_argument(
        "--mutants", type=int, default=MUTANTS, help="of each model; 0 reports only"
    )
    parser.add_argument("--survivors", action="store_true", help="test these again, no others")
    options = parser.parse_args()
    for model in options.model:
        target, folder = TARGETS[model], FOLDER / model.replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        _check_out(folder / "commit", target, newest=options.survivors)
        session = WorkDB(folder / "session.sqlite", WorkDB.Mode.create)
        if options.survivors:
            _forget_survivors(session)
        elif options.mutants:
            chosen = _places(folder, target)[: options.mutants]
            known = {item.job_id for item in session.work_items}
            session.add_work_items(item for item in chosen if item.job_id not in known)
        if session.pending_work_items and (options.mutants or options.survivors):
            _run(folder, target)
        rows = [_row(model, session)]
        unfinished = bool(session.pending_work_items)
        reporting.save(
            "mutation", _protocol(), rows, seeds=[SEED], keep="model", unfinished=unfinished
        )


def _check_out(commit: Path, target: Target, *, newest: bool) -> None:
    """Bring the checkout to where the mutants of a model were made, whatever an interrupted run has left in it.

    The file ``commit`` names the place. With ``newest`` it is moved to today's commit, if the model is still the same.
    """
    if not TREE.exists():
        _git(ROOT, "worktree", "prune")
        _git(ROOT, "worktree", "add", "--detach", str(TREE), "HEAD")
    today = _git(ROOT, "rev-parse", "HEAD")
    if not commit.exists():
        commit.write_text(today)
    made = commit.read_text()
    if newest and made != today:
        files = [f"packages/{module}" for module in target.modules]
        if _git(ROOT, "diff", "--name-only", made, today, "--", *files):
            raise SystemExit(
                f"the model has changed since its mutants were made: delete {commit.parent} and "
                "start afresh"
            )
        commit.write_text(made := today)
    _git(TREE, "checkout", "--force", "--quiet", made)


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _places(folder: Path, target: Target) -> list[WorkItem]:
    """One mutant for every place where the files can be mutated, in an order that the seed decides."""
    path = folder / "all.sqlite"
    if not path.exists():
        _write_configuration(folder, target, timeout=1.0)
        partial = folder / "partial.sqlite"
        _cosmic_ray("init", str(folder / "cosmic-ray.toml"), str(partial))
        partial.rename(path)
    places: dict[tuple[str, Any], list[WorkItem]] = {}
    lines = {p: (TREE / "packages" / p).read_text().splitlines() for p in target.modules}
    for item in WorkDB(path, WorkDB.Mode.open).work_items:
        mutation = item.mutations[0]
        module, (line, column) = mutation.module_path, mutation.start_pos
        before = lines[module.relative_to("packages").as_posix()][line - 1][:column]
        left_out = any(part in mutation.operator_name for part in _LEFT_OUT)
        if not left_out and not before.endswith(_GUARD):
            places.setdefault((str(module), (line, column)), []).append(item)
    drawn = random.Random(SEED)
    order = sorted(places)
    drawn.shuffle(order)
    return [drawn.choice(sorted(places[key], key=_kind)) for key in order]


def _kind(item: WorkItem) -> tuple[str, int]:
    return item.mutations[0].operator_name, item.mutations[0].occurrence


def _write_configuration(folder: Path, target: Target, timeout: float) -> None:
    modules = ", ".join(f'"packages/{path}"' for path in target.modules)
    (folder / "cosmic-ray.toml").write_text(
        f"""[cosmic-ray]
module-path = [{modules}]
timeout = {timeout:.1f}
excluded-modules = []
test-command = {shlex.join(_test_command(target))!r}
distributor.name = "local"
"""
    )


def _test_command(target: Target) -> list[str]:
    """Run the tests on the sources of the checkout, whatever is installed."""
    sources = [TREE / "packages" / name / "src" for name in _packages()]
    path = os.pathsep.join(map(str, sources))
    return [
        *("env", f"PYTHONPATH={path}", "TACENDA_PROGRESS=0"),
        *(f"{name}_NUM_THREADS=1" for name in ("OMP", "OPENBLAS", "NUMBA")),
        *(sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"),
        *(f"packages/{path}" for path in target.tests),
    ]


def _packages() -> list[str]:
    return sorted(path.parent.name for path in (ROOT / "packages").glob("*/pyproject.toml"))


def _run(folder: Path, target: Target) -> None:
    """Test the mutants that have not been tested; they have five times as long as the code, and two minutes."""
    command = _test_command(target)
    start = time.monotonic()
    subprocess.run(command, cwd=TREE, check=True)
    _write_configuration(folder, target, timeout=120 + 5 * (time.monotonic() - start))
    _cosmic_ray("exec", str(folder / "cosmic-ray.toml"), str(folder / "session.sqlite"))


def _cosmic_ray(*arguments: str) -> None:
    command = [sys.executable, "-m", "cosmic_ray.cli", *arguments]
    subprocess.run(command, cwd=TREE, check=True)


def _forget_survivors(session: WorkDB) -> None:
    survived = [item for item, result in session.completed_work_items if not _killed(result)]
    kept = [pair for pair in session.completed_work_items if _killed(pair[1])]
    session.clear()
    session.add_work_items([item for item, _ in kept] + survived)
    for item, result in kept:
        session.set_result(item.job_id, result)


def _killed(result: WorkResult) -> bool:
    return result.test_outcome != TestOutcome.SURVIVED


def _row(model: str, session: WorkDB) -> dict[str, Any]:
    found = [result for _, result in session.completed_work_items]
    timed_out = sum(result.output == "timeout" for result in found)
    left = [result for result in found if not _killed(result)]
    survived = [result for result in left if _new_line(result) not in EQUIVALENT]
    n = len(found) - len(left) + len(survived)
    return {
        "model": model,
        "mutants": n,
        "killed": n - len(survived) - timed_out,
        "timed out": timed_out,
        "survived": len(survived),
        "score": round(1 - len(survived) / max(n, 1), 3),
        "equivalent": len(left) - len(survived),
        "tested": _git(TREE, "rev-parse", "--short=10", "HEAD"),
        "survivors": {str(n): result.diff for n, result in enumerate(survived)},
    }


def _new_line(result: WorkResult) -> str:
    """The line that a mutant has in the place of another, without its indentation."""
    lines = (result.diff or "").splitlines()
    return next((x[1:].strip() for x in lines if x.startswith("+") and x[:3] != "+++"), "")


def _protocol() -> dict[str, Any]:
    return {
        "tool": "cosmic-ray, one changed operator, comparison, number or loop a mutant",
        "mutants": "at places drawn at random, one a place",
        "killed": "a test of the model fails; timed out: it takes five times as long and two minutes",
        "score": "mutants killed or timed out, of all but the equivalent ones",
        "equivalent": "survivors that change nothing, as `EQUIVALENT` says why; not among the mutants",
    }


if __name__ == "__main__":
    main()
