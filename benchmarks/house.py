"""Ratios new over old: python -m benchmarks.house --old CHECKOUT [--new CHECKOUT] [--turns 5] [--only JOB ...].

Runs each job with the code of two checkouts, by turns, in fresh processes with the checkouts' own interpreters (or
this one) on one thread, and prints the median ratio of user CPU time: of the fit alone, after a tiny one that has done
imports and compiling, or of the whole process where that is the job. What the jobs predict is compared as well, and so
are the means of `benchmarks.witnesses`, a fit of every model. benchmarks/results/house.json keeps all of it.

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
from functools import cache
from pathlib import Path
from typing import Any

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


def _language_model(make: Callable[[], Any], n: int, small: bool, fits: int = 1) -> Prepared:
    text = corpus(200 if small else n)
    return (
        lambda: [make().fit(text) for _ in range(1 if small else fits)],
        lambda found: np.concatenate(found[0].surprisals(sentences()[-20:])),
    )


def _recommender(make: Callable[[], Any], small: bool, fits: int = 1) -> Prepared:
    data = trainset(2000 if small else 100_000)
    pairs = [(data.to_raw_uid(u), data.to_raw_iid(u % 50)) for u in range(0, data.n_users, 29)]
    return (
        lambda: [make().fit(data) for _ in range(1 if small else fits)],
        lambda found: [found[0].predict(*pair).est for pair in pairs],
    )


def lds_fit(small: bool) -> Prepared:
    from tacenda_embeddings import LDS

    text = corpus(200 if small else 40_000)
    return (
        lambda: LDS(n_states=5 if small else 100, threads=1).fit(text),
        lambda lds: [np.abs(each).sum(0) for each in lds.transform(sentences()[:20])],
    )


def nlp_pipe(small: bool) -> Prepared:
    import spacy

    import tacenda

    nlp = spacy.blank("en")
    nlp.add_pipe("lds_embeddings").initialize(artifact=tacenda.load("en-lds-small"))
    texts = [" ".join(words) for words in sentences()[: 10 if small else 4000]]
    docs = list(map(nlp.make_doc, texts))
    component = nlp.get_pipe("lds_embeddings")
    return (
        lambda: [list(component.pipe(docs)) for _ in range(1 if small else 8)],
        lambda found: [doc.tensor.sum(0) for doc in found[0][:20]],
    )


def lm_pipe(small: bool) -> Prepared:
    import spacy

    from tacenda_lm import KneserNey

    nlp = spacy.blank("en")
    nlp.add_pipe("lm_scorer").initialize(artifact=KneserNey(order=3).fit(corpus(2000)))
    texts = [" ".join(words) for words in sentences()[: 10 if small else 4000]]
    docs = list(map(nlp.make_doc, texts))
    component = nlp.get_pipe("lm_scorer")
    return (
        lambda: [list(component.pipe(docs)) for _ in range(1 if small else 8)],
        lambda found: [[token._.surprisal for token in doc] for doc in found[0][:20]],
    )


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


def hlbl_epoch(small: bool) -> Prepared:
    from tacenda_lm import HLBL

    return _language_model(lambda: HLBL(width=64, epochs=1, threads=1), 6000, small)


def lbl_epoch(small: bool) -> Prepared:
    from tacenda_lm import LBL

    return _language_model(lambda: LBL(width=32, epochs=1), 4000, small)


def vlhmm_epoch(small: bool) -> Prepared:
    from tacenda_lm import VLHMM

    def make() -> Any:
        return VLHMM(n_classes=32, states_per_class=32, width=32, epochs=1, threads=1)

    return _language_model(make, 6000, small, fits=3)


def recurrent_epoch(small: bool) -> Prepared:
    from tacenda_lm import RecurrentLM

    return _language_model(lambda: RecurrentLM(width=50, epochs=1), 2000, small)


def state_space_epoch(small: bool) -> Prepared:
    from tacenda_lm import StateSpaceLM

    return _language_model(lambda: StateSpaceLM(epochs=1), 600, small)


def frbm_epoch(small: bool) -> Prepared:
    from tacenda_lm import FRBM

    return _language_model(lambda: FRBM(features=32, hidden=32, epochs=1), 2500, small)


def kneser_ney_fit(small: bool) -> Prepared:
    from tacenda_lm import KneserNey

    return _language_model(lambda: KneserNey(order=5), 40_000, small, fits=3)


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


def sumembed_fit(small: bool) -> Prepared:
    from tacenda_embeddings import SumEmbed

    text = corpus(200 if small else 1000)
    words = ["walking", "unbefriended", "company", "1987"]
    return (
        lambda: SumEmbed(width=32, epochs=1, threads=1).fit(text),
        lambda model: model.transform([words])[0],
    )


def pmf_fit(small: bool) -> Prepared:
    from tacenda_surprise import PMF

    return _recommender(lambda: PMF(random_state=0), small, fits=4)


def conditional_pmf_fit(small: bool) -> Prepared:
    from tacenda_surprise import ConditionalPMF

    return _recommender(lambda: ConditionalPMF(random_state=0), small, fits=3)


def gibbs_sweeps(small: bool) -> Prepared:
    from tacenda_surprise import BayesianPMF

    def make() -> Any:
        return BayesianPMF(n_factors=15, burn_in=5, n_samples=60, random_state=0)

    return _recommender(make, small)


def rbm_epochs(small: bool) -> Prepared:
    from tacenda_surprise import RBM

    return _recommender(lambda: RBM(n_hidden=50, n_epochs=20, random_state=0), small)


def load_warm(small: bool) -> Prepared:
    import tacenda

    names = ["en-lds-small"] * (1 if small else 40)
    return lambda: [tacenda.load(name) for name in names], lambda found: found[0].width


JOBS = {
    job.__name__: job
    for job in (
        lds_fit, nlp_pipe, concat_pipe, concat_one_by_one, lm_pipe, hlbl_epoch, lbl_epoch, vlhmm_epoch,
        recurrent_epoch, state_space_epoch, frbm_epoch, kneser_ney_fit, kneser_ney_score, neural_cache_score,
        sumembed_fit, pmf_fit, conditional_pmf_fit, gibbs_sweeps, rbm_epochs, load_warm,
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


def witnesses(old: Tree, new: Tree) -> dict[str, float | None]:
    """How far the means of the small fits of every model are apart."""
    said = [
        json.loads(tree.run("-m", "benchmarks.witnesses", "--here").splitlines()[-1])
        for tree in (old, new)
    ]
    names = sorted({*said[0], *said[1]})
    return {name: difference(said[0].get(name, []), said[1].get(name, [])) for name in names}


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
        told = {} if options.only else witnesses(*trees)
    for name, far in told.items():
        if far is None or far > TOLERANCE:
            print(f"witness {name}: differs by {far}")
    if not options.no_save and not options.only:
        file = ROOT / "benchmarks" / "results" / "house.json"
        content = {"data": "PTB, MovieLens-100K" if DATA else "generated", "turns": options.turns}
        file.write_text(
            json.dumps({**content, "rows": rows, "witnesses": told}, indent=1) + "\n", "utf-8"
        )


if __name__ == "__main__":
    main()
