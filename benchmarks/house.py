"""Ratios new over old: python -m benchmarks.house --old CHECKOUT [--new CHECKOUT] [--turns 5] [--only JOB ...].

Runs each job with the code of two checkouts, by turns, in fresh processes with the checkouts' own interpreters (or
this one) on one thread, and prints the median ratio of user CPU time: of the fit alone, after a tiny one that has done
imports and compiling, or of the whole process where that is the job. What the jobs predict is compared as well.
benchmarks/results/house.json keeps all of it.

Data: Penn Treebank and MovieLens-100K where TACENDA_DATA names them, else generated text and ratings.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ["TACENDA_DATA"]) if os.environ.get("TACENDA_DATA") else None
TOLERANCE = 1e-6

Prepared = tuple[Callable[[], Any], Callable[[Any], Any]]
"""What is timed, and what its result predicts."""


@cache
def sentences() -> list[list[str]]:
    """Penn Treebank, or sentences of 5,000 invented words with Zipf's frequencies."""
    if DATA is not None:
        text = (DATA / "lm/ptb/ptb.train.txt").read_text("utf-8")
        return [line.split() for line in text.splitlines()]
    rng = np.random.default_rng(0)
    frequencies = 1 / np.arange(1, 5001)
    followers = rng.choice(5000, (5000, 20), p=frequencies / frequencies.sum())
    found = []
    for length in rng.integers(5, 40, 30_000).tolist():
        ids = [int(rng.choice(followers[0]))]
        for pick in rng.integers(20, size=length).tolist():
            ids.append(int(followers[ids[-1], pick]))
        found.append([f"w{i}{('s', 'ed', 'ing', '')[i % 4]}" for i in ids])
    return found


@cache
def corpus(n: int) -> Any:
    from tacenda import Corpus

    return Corpus.from_sentences(sentences()[:n], max_vocabulary=10_000)


@cache
def trainset(n: int) -> Any:
    """MovieLens-100K, or as many invented ratings; the first ``n`` of them."""
    from surprise import Dataset, Reader

    rows: list[tuple[str, str, float, None]]
    if DATA is not None:
        lines = (DATA / "ratings/ml-100k/u.data").read_text("utf-8").splitlines()
        rows = [(u, i, float(r), None) for u, i, r, _ in map(str.split, lines)]
    else:
        rng = np.random.default_rng(0)
        users, items = rng.normal(size=(1000, 4)), rng.normal(size=(1500, 4))
        pairs = rng.permutation(1000 * 1500)[:100_000]
        u, i = pairs // 1500, pairs % 1500
        values = np.clip(np.rint(3.5 + 0.5 * (users[u] * items[i]).sum(1)), 1, 5)
        rows = [
            (str(a), str(b), float(r), None)
            for a, b, r in zip(u.tolist(), i.tolist(), values.tolist(), strict=True)
        ]
    return Dataset(Reader(rating_scale=(1, 5))).construct_trainset(rows[:n])


class Fit(NamedTuple):
    """Fits of a model: its package, class and options, on how much data, and how many of them."""

    package: str
    model: str
    options: dict[str, Any]
    size: int
    fits: int = 1

    def __call__(self, small: bool) -> Prepared:
        make = partial(getattr(import_module(self.package), self.model), **self.options)
        fits = 1 if small else self.fits
        if self.package == SURPRISE:
            data = trainset(2000 if small else self.size)
            pairs = [
                (data.to_raw_uid(u), data.to_raw_iid(u % 50)) for u in range(0, data.n_users, 29)
            ]
            return (
                lambda: [make().fit(data) for _ in range(fits)],
                lambda found: [found[0].predict(*pair).est for pair in pairs],
            )
        text, lines = corpus(200 if small else self.size), sentences()
        predict = {
            LM: lambda model: np.concatenate(model.surprisals(lines[-20:])),
            "LDS": lambda model: [np.abs(each).sum(0) for each in model.transform(lines[:20])],
            "SumEmbed": lambda model: model.transform([WORDS])[0],
        }[self.package if self.package == LM else self.model]
        return lambda: [make().fit(text) for _ in range(fits)], lambda found: predict(found[0])


LM, EMBEDDINGS, SURPRISE = "tacenda_lm", "tacenda_embeddings", "tacenda_surprise"
WORDS = ["walking", "unbefriended", "company", "1987"]
FITS = {
    "lds_fit": Fit(EMBEDDINGS, "LDS", {"n_states": 100, "threads": 1}, 40_000),
    "sumembed_fit": Fit(EMBEDDINGS, "SumEmbed", {"width": 32}, 1000),
    "hlbl_epoch": Fit(LM, "HLBL", {"width": 64, "epochs": 1, "threads": 1}, 6000),
    "lbl_epoch": Fit(LM, "LBL", {"width": 32, "epochs": 1}, 4000),
    "vlhmm_epoch": Fit(
        LM, "VLHMM",
        {"n_classes": 32, "states_per_class": 32, "width": 32, "epochs": 1, "threads": 1}, 6000, 3,
    ),
    "recurrent_epoch": Fit(LM, "RecurrentLM", {"width": 50, "epochs": 1}, 2000),
    "state_space_epoch": Fit(LM, "StateSpaceLM", {"epochs": 1}, 600),
    "frbm_epoch": Fit(LM, "FRBM", {"features": 32, "hidden": 32, "epochs": 1}, 2500),
    "kneser_ney_fit": Fit(LM, "KneserNey", {"order": 5}, 40_000, 3),
    "pmf_fit": Fit(SURPRISE, "PMF", {"random_state": 0}, 100_000, 4),
    "conditional_pmf_fit": Fit(SURPRISE, "ConditionalPMF", {"random_state": 0}, 100_000, 3),
    "gibbs_sweeps": Fit(
        SURPRISE, "BayesianPMF",
        {"n_factors": 15, "burn_in": 5, "n_samples": 60, "random_state": 0}, 100_000,
    ),
    "rbm_epochs": Fit(
        SURPRISE, "RBM", {"n_hidden": 50, "n_epochs": 20, "random_state": 0}, 100_000
    ),
}  # fmt: skip


def _piped(name: str, artifact: Any, small: bool, predict: Callable[[Any], Any]) -> Prepared:
    import spacy

    nlp = spacy.blank("en")
    component = nlp.add_pipe(name)
    component.initialize(artifact=artifact)
    texts = [" ".join(words) for words in sentences()[: 10 if small else 4000]]
    docs = list(map(nlp.make_doc, texts))
    return (
        lambda: [list(component.pipe(docs)) for _ in range(1 if small else 8)],
        lambda found: [predict(doc) for doc in found[0][:20]],
    )


def nlp_pipe(small: bool) -> Prepared:
    import tacenda

    model = tacenda.load("en-lds-small")
    return _piped("lds_embeddings", model, small, lambda doc: doc.tensor.sum(0))


def lm_pipe(small: bool) -> Prepared:
    from tacenda_lm import KneserNey

    model = KneserNey(order=3).fit(corpus(2000))
    return _piped("lm_scorer", model, small, lambda doc: [token._.surprisal for token in doc])


def _tagger() -> Any:
    """A tagger on hashed features and an LDS, joined by one layer."""
    import spacy

    from tacenda_embeddings import LDS

    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("lds_embeddings").initialize(artifact=LDS(n_states=50).fit(corpus(4000)))
    features = {"attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"], "rows": [5000, 1000, 2500, 2500]}
    embeds = {
        "hash": {
            "@architectures": "spacy.MultiHashEmbed.v2", "width": 96, "include_static_vectors": False, **features,
        },
        "lds": {"@architectures": "tacenda.DocTensor.v1"},
    }  # fmt: skip
    tok2vec = {"@architectures": "tacenda.ConcatEmbed.v1", "width": 96, "embeds": embeds}
    model = {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}
    tagger = nlp.add_pipe("tagger", config={"model": model})
    doc = nlp.make_doc("a b")
    example = spacy.training.Example.from_dict(doc, {"tags": ["N", "V"]})
    nlp.initialize(lambda: [example])
    return nlp, tagger


def _tagged(small: bool, n: int, tag: Callable[[Any, list[Any]], list[Any]]) -> Prepared:
    from spacy.tokens import Doc

    nlp, tagger = _tagger()
    lines = [words for words in sentences()[4000:] if words]
    docs = [Doc(nlp.vocab, words=words) for words in lines[: 10 if small else n]]
    repeats = 1 if small else 4
    return (
        lambda: [tag(nlp, [doc.copy() for doc in docs]) for _ in range(repeats)],
        lambda found: tagger.model.get_ref("tok2vec").predict(found[0][:20]),
    )


def concat_pipe(small: bool) -> Prepared:
    return _tagged(small, 2000, lambda nlp, docs: list(nlp.pipe(docs)))


def concat_one_by_one(small: bool) -> Prepared:
    return _tagged(small, 400, lambda nlp, docs: [nlp(doc) for doc in docs])


def kneser_ney_score(small: bool) -> Prepared:
    from tacenda_lm import KneserNey

    lm = KneserNey(order=5).fit(corpus(5000))
    text = sentences()[: 10 if small else 20_000]
    return (
        lambda: [lm.perplexity(text).value for _ in range(1 if small else 5)],
        lambda found: found,
    )


def neural_cache_score(small: bool) -> Prepared:
    from tacenda_lm import NeuralCache

    lm = NeuralCache(hlbl={"width": 32, "epochs": 1}).fit(corpus(1000))
    text = sentences()[-(10 if small else 1000) :]
    return (
        lambda: [lm.perplexity(text, context="stream").value for _ in range(1 if small else 5)],
        lambda found: found,
    )


def load_warm(small: bool) -> Prepared:
    import tacenda

    names = ["en-lds-small"] * (1 if small else 40)
    return lambda: [tacenda.load(name) for name in names], lambda found: found[0].width


JOBS: dict[str, Callable[[bool], Prepared]] = FITS | {
    job.__name__: job
    for job in (
        nlp_pipe, concat_pipe, concat_one_by_one, lm_pipe, kneser_ney_score, neural_cache_score, load_warm,
    )
}  # fmt: skip
PROCESSES = {
    "load_fresh": ["-c", "import tacenda; tacenda.load('en-lds-small')"],
    "import_tacenda": ["-c", "import tacenda"],
    "import_tacenda_lm": ["-c", "import tacenda_lm; tacenda_lm.KneserNey"],
    "help": ["-m", "tacenda", "--help"],
}


def seconds() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def run(name: str) -> dict[str, Any]:
    """Time a job of this interpreter's code, after a tiny one."""
    import warnings

    warnings.simplefilter("ignore")
    job = JOBS[name]
    act, predict = job(True)
    predict(act())
    act, predict = job(False)
    start = seconds()
    result = act()
    taken = seconds() - start
    said = predict(result)
    parts = said if isinstance(said, list) else [said]
    numbers = np.concatenate([np.ravel(each) for each in parts]).astype(float)
    return {"seconds": taken, "said": [float(f"{x:.9g}") for x in numbers[:2000]]}


def environment(checkout: Path, scratch: Path) -> dict[str, str]:
    sources = [str(each) for each in sorted(checkout.glob("packages/*/src"))]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*sources, str(ROOT)]),
        "NUMBA_CACHE_DIR": str(scratch),
        "TACENDA_PROGRESS": "0",
        **{f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")},
    }


class Tree:
    """A checkout, in which commands are run."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder = folder.resolve()
        own = self.folder / ".venv" / "bin" / "python"
        self.python = str(own if own.exists() else sys.executable)
        self.environment = environment(self.folder, scratch)

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.python, "-W", "ignore", *arguments],
            cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    def job(self, name: str) -> dict[str, Any]:
        if name not in PROCESSES:
            found: dict[str, Any] = json.loads(
                self.run("-m", "benchmarks.house", "--job", name).splitlines()[-1]
            )
            return found
        start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        for _ in range(3):
            self.run(*PROCESSES[name])
        taken = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - start
        return {"seconds": taken / 3, "said": []}


def difference(old: list[float], new: list[float]) -> float | None:
    """The largest difference, relative to the mean size of the numbers; None where there are others."""
    if len(old) != len(new):
        return None
    a, b = np.array(old), np.array(new)
    return float(abs(a - b).max(initial=0) / (abs(a).mean() if len(a) else 1))


def compared(name: str, old: Tree, new: Tree, turns: int) -> dict[str, Any]:
    """A row: median seconds of both, the median of the ratios of turns, and how far predictions are apart."""
    pairs = []
    for turn in range(turns):
        first, second = (old, new) if turn % 2 else (new, old)
        found = {first: first.job(name)}
        found[second] = second.job(name)
        pairs.append((found[old], found[new]))
    ratios = [b["seconds"] / a["seconds"] for a, b in pairs]
    least = [min(each[side]["seconds"] for each in pairs) for side in (0, 1)]
    return {
        "job": name,
        "old": least[0],
        "new": least[1],
        "ratio": statistics.median(ratios),
        "of minima": least[1] / least[0],
        "spread": [min(ratios), max(ratios)],
        "differs": difference(pairs[0][0]["said"], pairs[0][1]["said"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--old", type=Path)
    parser.add_argument("--new", type=Path, default=ROOT)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="jobs with one of these in the name")
    parser.add_argument("--no-save", action="store_true", help="leave results/ alone")
    parser.add_argument("--job", choices=[*JOBS], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        print(json.dumps(run(options.job)))
        return
    if options.old is None:
        parser.error("name the checkout to compare with: --old CHECKOUT")
    with tempfile.TemporaryDirectory() as scratch:
        trees = [
            Tree(folder, Path(scratch) / side)
            for side, folder in (("old", options.old), ("new", options.new))
        ]
        rows = []
        for name in (*JOBS, *PROCESSES):
            if options.only and not any(each in name for each in options.only):
                continue
            try:
                row = compared(name, *trees, options.turns)
            except subprocess.CalledProcessError as error:
                print(f"{name}: a process ended with {error.returncode}", flush=True)
                continue
            rows.append(row)
            far = row["differs"]
            same = far is not None and far <= TOLERANCE
            print(
                f"{name:20} {row['old']:7.2f} s {row['new']:7.2f} s   {row['ratio']:.2f}x "
                f"({row['spread'][0]:.2f} to {row['spread'][1]:.2f}; of minima {row['of minima']:.2f})",
                "" if same else f"predictions differ by {far}",
                flush=True,
            )
    if not options.no_save and not options.only:
        file = ROOT / "benchmarks" / "results" / "house.json"
        content = {"data": "PTB, MovieLens-100K" if DATA else "generated", "turns": options.turns}
        file.write_text(json.dumps({**content, "rows": rows}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
