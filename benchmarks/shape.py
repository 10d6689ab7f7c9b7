"""The size and the shape of the code: python -m benchmarks.shape [--tree CHECKOUT] [--details ROW].

Prints what a reader has to walk through: lines and files, long signatures, the functions that a main job enters, the
Python calls of a small kernel. Each row has the number of "today" (3843cd73, the code before the third house), of the
tree measured, the floor asked for and the target. benchmarks/results/shape.json keeps it.

How each row counts, all of it in ``packages/*/src``:

- one importer: modules but ``__init__`` that exactly one other module imports, anywhere in it (inside functions and
  under ``TYPE_CHECKING`` too); an ``__init__`` that re-exports a module is an importer.
- parameters: of every ``def``, without self and cls; and the same without kernels that are compiled and without what
  only a host calls (commands, spaCy's components and factories), whose parameters are a user's options.
- state: lines of all functions whose name is one of `STATE`.
- kernels: every module below ``tacenda/kernels`` but the dispatcher, its machinery and the fast paths (cpu, gpu,
  torch, triton).
- MRO: without ``object``. Options: fields declared in settings classes (an inherited field counts once), and the
  constructor's parameters of models that have no settings class.
- walks: different functions of ours that a second run enters, by the profiler, comprehensions and lambdas aside;
  compiled functions count where Python calls them.
- calls: from `plugins.register` to the second result, in a first run.
- adagrad: the public function over the compiled loop that it ends in, rows of 200 numbers.
- circles: strongly connected modules, imports anywhere but in the packages' own ``__init__``.

Times are medians of many repetitions, and ratios on one core.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
import threading
import timeit
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.freshness import ROOT, module_paths

#: Functions that only carry arrays between memory, disk, device and checkpoint.
STATE = {
    "arrays", "from_arrays", "compact_arrays", "state", "load_state", "_state", "parameters", "load_parameters", "on",
    "on_host", "_on_device", "config", "config_dict", "nested", "to_artifact", "from_artifact", "save", "fetch",
    "_fetched", "put", "_put", "restore", "to_tensor", "to_array", "to_bytes", "from_bytes", "to_disk", "from_disk",
    "__deepcopy__", "__getstate__", "__setstate__", "_read_arrays", "_rebuild", "_sizes", "_collect_indexes",
}  # fmt: skip
FAST = {"cpu", "gpu", "torch", "triton", "compiled"}
MACHINERY = {"machinery", "backends", "dispatch", "operation", "vectors", "threads", "memory"}
HOSTED = {"cli", "spacy", "spacy_cli"}
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Row(NamedTuple):
    """What is measured, with the number before the third house, the floor and the target."""

    name: str
    today: float
    floor: float | None = None
    target: float | None = None


ROWS = (
    Row("lines of packages/*/src", 66_324, 50_000, 46_000),
    Row("files", 417, 260, 220),
    Row("files with exactly one importer", 100, 45, 30),
    Row("functions with more than 12 parameters", 48, 8, 0),
    Row("functions with more than 8 parameters", 130, 40, 20),
    Row("the same, more than 12, neither compiled nor a host's", 10, 8, 0),
    Row("the same, more than 8, neither compiled nor a host's", 51, 40, 20),
    Row("lines of functions that only carry state", 1_770, 600, 450),
    Row("kernels: public layer and naive", 4_062, 2_300, 1_900),
    Row("MRO of HLBL", 12, 6, 5),
    Row("MRO of KneserNey", 11, 6, 5),
    Row("MRO of ConditionalPMF", 9, 5, 4),
    Row("walk: nlp.pipe with LDS", 71, 45, 35),
    Row("walk: ConditionalPMF.fit", 189, 110, 80),
    Row("walk: HLBL.fit of a file", 268, 150, 110),
    Row("walk: VLHMM.fit with a device", 279, 160, 120),
    Row("walk: tacenda.load by name", 93, 50, 35),
    Row("walk: KneserNey(5).fit and perplexity", 172),
    Row("walk: tacenda lm surprisal", 185),
    Row("walk: a third party's kernel", 30),
    Row("calls: two small steps of a third party's kernel", 716, 150, 80),
    Row("adagrad on 1 row, public over bare", 16.7, 5, 3),
    Row("adagrad on 60 rows, public over bare", 3.2, 1.6, 1.3),
    Row("adagrad on 1000 rows, public over bare", 1.4, 1.1, 1.05),
    Row("constructing ConditionalPMF() over SVD()", 590, 60, 20),
    Row("comment lines in src, per cent", 0.8, 2, 3),
    Row("import circles", 1, 0, 0),
    Row("options declared", 332, 200, 170),
    Row("lines of tests and benchmarks", 62_290, 52_000, 45_000),
)


# -- what can be read off the source ------------------------------------------------------------------


class Source(NamedTuple):
    """A module: its path, text and syntax."""

    path: Path
    text: str
    tree: ast.Module


def sources(tree: Path) -> dict[str, Source]:
    """Every module of the packages, by its full name."""
    texts = ((name, path, path.read_text("utf-8")) for name, path in module_paths(tree))
    return {name: Source(path, text, ast.parse(text)) for name, path, text in texts}


def imports(
    modules: dict[str, Source], *, functions: bool = True, types: bool = True
) -> dict[str, set[str]]:
    """The names that each module imports, anywhere in it, or but for its functions or `TYPE_CHECKING`."""

    def walk(node: ast.AST) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            unseen = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            if (unseen and not types) or (isinstance(child, _FUNCTIONS) and not functions):
                continue
            if isinstance(child, ast.Import):
                yield from (alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                full = (f"{child.module}.{alias.name}" for alias in child.names)
                yield from (each if each in modules else str(child.module) for each in full)
            else:
                yield from walk(child)

    return {name: set(walk(source.tree)) for name, source in modules.items()}


def arrows_of(imported: dict[str, set[str]]) -> dict[str, set[str]]:
    """The other modules of ours among the names that each imports."""
    return {name: (names & set(imported)) - {name} for name, names in imported.items()}


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module, by reachability."""
    reached: dict[str, set[str]] = {}
    for start in arrows:
        seen: set[str] = set()
        stack = [start]
        while stack:
            for other in arrows[stack.pop()] - seen:
                seen.add(other)
                stack.append(other)
        reached[start] = seen
    found = {
        tuple(sorted(b for b in reached[a] if a in reached[b])) for a in arrows if a in reached[a]
    }
    return [list(each) for each in sorted(found)]


def functions(modules: dict[str, Source]) -> Iterator[tuple[str, Any, bool]]:
    """Every function: its module, its syntax, and whether it is a method with self or cls."""

    def walk(module: str, node: ast.AST, in_class: bool) -> Iterator[tuple[str, Any, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                first = (child.args.posonlyargs + child.args.args)[:1]
                yield module, child, in_class and bool(first) and first[0].arg in ("self", "cls")
                yield from walk(module, child, False)
            else:
                yield from walk(module, child, isinstance(child, ast.ClassDef))

    for name, source in modules.items():
        yield from walk(name, source.tree, False)


def n_parameters(function: Any, method: bool) -> int:
    given = function.args
    return len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs) - method


def is_aside(module: str, function: Any) -> bool:
    """Whether it is a compiled kernel, or what only a host calls with a user's options."""
    decorators = " ".join(map(ast.unparse, function.decorator_list))
    compiled = any(word in decorators for word in ("jit", "compiled"))
    return compiled or bool(HOSTED & set(module.split(".")))


def n_lines(function: Any) -> int:
    first = min([function.lineno, *(each.lineno for each in function.decorator_list)])
    return int(function.end_lineno) - first + 1


def is_public_kernel(name: str) -> bool:
    """Whether a module is of the layer that says what an operation is."""
    parts = name.split(".")
    aside = MACHINERY & set(parts[2:3]) or parts[-1] in FAST | MACHINERY
    return parts[:2] == ["tacenda", "kernels"] and not aside


def declared(modules: dict[str, Source]) -> dict[str, int]:
    """The options that each class of a model declares."""
    found: dict[str, int] = {}
    bases = {
        node.name: {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
        for source in modules.values()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
    }

    def is_settings(name: str) -> bool:
        above, known = {name}, set[str]()
        while above:  # classes of several modules may have one name, so that names go in circles
            known |= above
            above = set().union(*(bases.get(each, set()) for each in above)) - known
        return "Settings" in known

    for module, source in modules.items():
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.ClassDef):
                continue
            if node.name != "Settings" and is_settings(node.name):
                fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
                own = [each for each in fields if "ClassVar" not in ast.unparse(each.annotation)]
                found[f"{module}.{node.name}"] = len(own)
            elif node.name in ("Mixture", "AdaptiveMixture"):
                for each in node.body:
                    if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                        given = n_parameters(each, True)
                        found[f"{module}.{node.name}"] = given - 2 * (
                            node.name == "AdaptiveMixture"
                        )
    return found


def read(tree: Path) -> tuple[dict[str, float], dict[str, list[str]]]:
    """Rows that the source gives, and what they are made of."""
    modules = sources(tree)
    lonely, rings = of_imports(modules)
    parameters, long = of_parameters(modules)
    state = sorted(
        (n_lines(each), f"{module}.{each.name}")
        for module, each, _ in functions(modules)
        if each.name in STATE
    )
    public = {
        name: source.text.count("\n") for name, source in modules.items() if is_public_kernel(name)
    }
    texts = [source.text for source in modules.values()]
    lines = sum(text.count("\n") for text in texts)
    comments = sum(line.lstrip().startswith("#") for text in texts for line in text.splitlines())
    options = declared(modules)
    found = {
        "lines of packages/*/src": lines,
        "files": len(modules),
        "files with exactly one importer": len(lonely),
        **parameters,
        "lines of functions that only carry state": sum(n for n, _ in state),
        "kernels: public layer and naive": sum(public.values()),
        "comment lines in src, per cent": 100 * comments / lines,
        "import circles": len(rings),
        "options declared": sum(options.values()),
        "lines of tests and benchmarks": sum(
            path.read_text("utf-8").count("\n")
            for where in ("tests", "benchmarks", "packages/*/tests")
            for folder in tree.glob(where)
            for path in folder.rglob("*.py")
        ),
    }
    details = {
        "files with exactly one importer": lonely,
        "functions with more than 8 parameters": long,
        "lines of functions that only carry state": [f"{n} {name}" for n, name in state[::-1]],
        "kernels: public layer and naive": [f"{n} {name}" for name, n in public.items()],
        "import circles": [" ".join(each) for each in rings],
        "options declared": [f"{n} {name}" for name, n in options.items()],
    }
    return found, details


def of_imports(modules: dict[str, Source]) -> tuple[list[str], list[list[str]]]:
    """The files that one other imports, as ``file <- importer``, and the circles of imports."""
    arrows = arrows_of(imports(modules))
    importers = defaultdict(set)
    for name, others in arrows.items():
        for other in others:
            importers[other].add(name)
    lonely = sorted(
        f"{name} <- {min(importers[name])}"
        for name, source in modules.items()
        if len(importers[name]) == 1 and source.path.name != "__init__.py"
    )
    inner = {name for name in arrows if "." in name}
    return lonely, circles({name: arrows[name] & inner for name in inner})


def of_parameters(modules: dict[str, Source]) -> tuple[dict[str, float], list[str]]:
    """How many functions have many parameters, and the functions with more than 8."""
    counted = sorted(
        (n_parameters(each, method), is_aside(module, each), f"{module}.{each.name}")
        for module, each, method in functions(modules)
    )
    found: dict[str, float] = {}
    for most in (12, 8):
        found[f"functions with more than {most} parameters"] = sum(n > most for n, _, _ in counted)
        found[f"the same, more than {most}, neither compiled nor a host's"] = sum(
            n > most and not aside for n, aside, _ in counted
        )
    return found, [f"{n} {name}{' (aside)' * aside}" for n, aside, name in counted[::-1] if n > 8]


# -- what must be run, in the interpreter of the tree ---------------------------------------------------


def entered(job: Callable[[], Any]) -> list[str]:
    """The functions of ours that a call enters, as ``path:line name``."""
    found = set()

    def note(frame: Any, event: str, _argument: Any) -> None:
        code = frame.f_code
        if (
            event == "call"
            and f"{os.sep}packages{os.sep}" in code.co_filename
            and "/src/" in code.co_filename
            and not code.co_name.startswith("<")
        ):
            found.add(
                f"{code.co_filename.rpartition('/src/')[2]}:{code.co_firstlineno} {code.co_name}"
            )

    _profile(job, note)
    return sorted(found)


def calls(job: Callable[[], Any]) -> int:
    """How many Python functions a call calls, of whatever library."""
    count = 0

    def note(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    _profile(job, note)
    return count


def _profile(job: Callable[[], Any], note: Any) -> None:
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        job()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def walks(folder: Path) -> dict[str, Callable[[], Any]]:
    """Eight ways through the code, on tiny inputs."""
    import numpy as np
    import spacy
    from surprise import Dataset, Reader
    from typer.testing import CliRunner

    import tacenda
    from tacenda import Corpus
    from tacenda.cli.main import app
    from tacenda_embeddings import LDS
    from tacenda_lm import HLBL, VLHMM, KneserNey
    from tacenda_surprise import ConditionalPMF

    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(60)]
    sentences = [rng.choice(words, rng.integers(3, 15)).tolist() for _ in range(300)]
    corpus = Corpus.from_sentences(sentences)
    text = folder / "text.txt"
    text.write_text("".join(" ".join(sentence) + "\n" for sentence in sentences), "utf-8")
    rows = [
        (f"u{rng.integers(40)}", f"i{rng.integers(30)}", float(rng.integers(1, 6)), None)
        for _ in range(600)
    ]
    trainset = Dataset(Reader(rating_scale=(1, 5))).construct_trainset(rows)
    nlp = spacy.blank("en")
    nlp.add_pipe("lds_embeddings").initialize(artifact=LDS(n_states=4).fit(corpus))
    docs = [" ".join(sentence) for sentence in sentences[:20]]
    KneserNey(order=3).fit(corpus).save(folder / "lm")
    items = folder / "items.tsv"
    items.write_text("item\ttext\n1\tw1 w2 w3 w4\n2\tw5 w6 w7\n", "utf-8")

    def n_grams() -> None:
        KneserNey(order=5).fit(corpus).perplexity(sentences[:20])

    def surprisal() -> None:
        arguments = ["lm", "surprisal", str(folder / "lm"), str(items)]
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert not done.exit_code, done.output

    return {
        "nlp.pipe with LDS": lambda: list(nlp.pipe(docs)),
        "ConditionalPMF.fit": lambda: ConditionalPMF(n_factors=4, n_epochs=2).fit(trainset),
        "HLBL.fit of a file": lambda: HLBL(width=8, epochs=1).fit(text),
        "VLHMM.fit with a device": lambda: VLHMM(
            n_classes=4, states_per_class=4, width=8, epochs=1, device="cpu"
        ).fit(text),
        "tacenda.load by name": lambda: tacenda.load("en-lds-small"),
        "KneserNey(5).fit and perplexity": n_grams,
        "tacenda lm surprisal": surprisal,
        "a third party's kernel": third_party(),
    }


def third_party() -> Callable[[], Any]:
    """Register somebody's row steps by hand, and take two steps of three numbers with them."""
    import numpy as np

    from tacenda import kernels, plugins
    from tacenda.kernels.shared import adagrad as step

    def adagrad(table: Any, sums: Any, rows: Any, gradient: Any, rate: float, *_: Any) -> Any:
        sums[rows] += (gradient**2).mean(axis=1)
        table[rows] -= rate * gradient / (np.sqrt(sums[rows])[:, None] + 1e-8)
        return table, sums

    names = iter(range(1_000_000))
    table, sums = np.ones((2, 3), np.float32), np.ones(2, np.float32)
    rows, gradient = np.array([1]), np.ones((1, 3), np.float32)

    def job() -> None:
        name = f"mine{next(names)}"
        backend = kernels.Backend(priority=1, adagrad=adagrad)
        plugins.register("kernels", name, backend)
        with kernels.use(name):
            for _ in range(2):
                step(table, sums, rows, gradient, 0.1)

    return job


def live() -> dict[str, Any]:
    """Rows that come from running the code of this interpreter."""
    from surprise import SVD

    from tacenda_lm import HLBL, KneserNey
    from tacenda_surprise import ConditionalPMF

    found: dict[str, float] = {}
    details: dict[str, list[str]] = {}
    for cls in (HLBL, KneserNey, ConditionalPMF):
        found[f"MRO of {cls.__name__}"] = len(cls.__mro__) - 1
        details[f"MRO of {cls.__name__}"] = [each.__name__ for each in cls.__mro__]
    with tempfile.TemporaryDirectory() as folder:
        for name, job in walks(Path(folder)).items():
            try:
                job()
                seen = entered(job)
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            found[f"walk: {name}"], details[f"walk: {name}"] = len(seen), seen
    found["calls: two small steps of a third party's kernel"] = calls(third_party())
    for n in (1, 60, 1000):
        found[f"adagrad on {n} row{'s' * (n > 1)}, public over bare"] = adagrad_ratio(n)
    ours, theirs = (
        min(timeit.repeat(make, number=n, repeat=9)) / n
        for make, n in ((ConditionalPMF, 200), (SVD, 20_000))
    )
    found["constructing ConditionalPMF() over SVD()"] = ours / theirs
    return {"found": found, "details": details}


def adagrad_ratio(n: int) -> float:
    """How many times as long the public step takes as the compiled loop that it ends in, on the same arrays."""
    import numpy as np

    from tacenda import kernels
    from tacenda.kernels.shared import adagrad

    with kernels.use("cpu"):
        resolved = kernels.resolve("adagrad")
    loop = next(
        each
        for each in vars(sys.modules[resolved.__module__]).values()
        if hasattr(each, "py_func") and {"table", "sums"} <= set(each.py_func.__code__.co_varnames)
    )
    rng = np.random.default_rng(0)
    table, sums = np.ones((1000, 200), np.float32), np.ones(1000, np.float32)
    rows, gradient = rng.permutation(1000)[:n], rng.standard_normal((n, 200), np.float32)
    narrow, rate = rows.astype(np.int32), np.float32(1e-9)

    def public() -> None:
        adagrad(table, sums, rows, gradient, 1e-9)

    given = {
        "table": table,
        "sums": sums,
        "rows": narrow,
        "gradient": gradient,
        "first": 0,
        "last": n,
    }
    code = loop.py_func.__code__
    arguments = [given.get(name, rate) for name in code.co_varnames[: code.co_argcount]]

    def bare() -> None:
        loop(*arguments)

    number = 200 // n + 20  # so short that other processes leave some of the repetitions alone
    ours, theirs = (min(timeit.repeat(job, number=number, repeat=200)) for job in (public, bare))
    return ours / theirs


def measured(tree: Path) -> tuple[dict[str, float], dict[str, list[str]]]:
    """All rows of a tree, those that must be run by its own interpreter."""
    found, details = read(tree)
    python = tree / ".venv" / "bin" / "python"
    environment = {
        **os.environ,
        "TACENDA_PROGRESS": "0",
        **{f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")},
    }
    done = subprocess.run(
        [python if python.exists() else sys.executable, "-W", "ignore", "-m", "benchmarks.shape", "--live"],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    run = json.loads(done.stdout.splitlines()[-1])
    return {**found, **run["found"]}, {**details, **run["details"]}


def _said(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout to measure")
    parser.add_argument("--details", metavar="ROW", help="list what rows of such a name count")
    parser.add_argument("--static", action="store_true", help="only what the source shows")
    parser.add_argument("--live", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.live:
        print(json.dumps(live()))
        return
    tree = options.tree.resolve()
    found, details = read(tree) if options.static else measured(tree)
    if options.details:
        for name, lines in details.items():
            if options.details in name:
                print(f"{name}:", *lines, sep="\n    ")
    table = [("", "today", "now", "floor", "target")]
    for row in ROWS:
        if row.name in found:
            today, now, floor, target = map(
                _said, (row.today, found[row.name], row.floor, row.target)
            )
            table.append((row.name, today, now, floor, target))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        first, *rest = line
        print(
            first.ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)),
        )
    if tree == ROOT and not options.static:
        rows = [{**row._asdict(), "now": found.get(row.name)} for row in ROWS]
        file = ROOT / "benchmarks" / "results" / "shape.json"
        file.write_text(json.dumps({"rows": rows}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
