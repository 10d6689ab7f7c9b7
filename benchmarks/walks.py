"""The source files that a main job passes through: python -m benchmarks.walks [--files].

For each job it counts the files of this project in which a Python function is entered, after a first run has done
the imports and the compiling. Compiled functions are not counted, only the Python that calls them.
benchmarks/results/walks.json keeps the counts.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from surprise import Dataset, Reader

from benchmarks import reporting
from tacenda import Corpus
from tacenda_embeddings import LDS
from tacenda_lm import HLBL
from tacenda_surprise import ConditionalPMF

# The same counts at af2219c, before the packages were rearranged: the modules had other names, the jobs were the same.
BEFORE = {
    "ConditionalPMF.fit": 41,
    "HLBL.fit": 47,
    "LDS.fit": 28,
    "nlp.pipe with lds_embeddings": 21,
}
PACKAGES = Path(__file__).resolve().parent.parent / "packages"


def walked(call: Callable[[], Any]) -> list[str]:
    """The files of this project whose Python functions ``call`` enters, in the order of their names."""
    entered: set[str] = set()

    def note(frame: Any, event: str, _argument: Any) -> None:
        if event == "call":
            entered.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    ours = [Path(name) for name in entered if Path(name).is_relative_to(PACKAGES)]
    return sorted(str(name.relative_to(PACKAGES)) for name in ours)


def jobs() -> dict[str, Callable[[], Any]]:
    """The main jobs, by name, each on data that takes a second or less."""
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(60)]
    sentences = [rng.choice(words, rng.integers(3, 15)).tolist() for _ in range(300)]
    corpus = Corpus.from_sentences(sentences)
    rows = [
        (f"u{rng.integers(40)}", f"i{rng.integers(30)}", float(rng.integers(1, 6)), None)
        for _ in range(600)
    ]
    trainset = Dataset(Reader(rating_scale=(1, 5))).construct_trainset(rows)
    lds = LDS(n_states=4).fit(corpus)
    nlp = spacy.blank("en")
    nlp.add_pipe("lds_embeddings").initialize(artifact=lds)
    docs = [" ".join(sentence) for sentence in sentences[:20]]
    return {
        "ConditionalPMF.fit": lambda: ConditionalPMF(n_factors=4, n_epochs=2).fit(trainset),
        "HLBL.fit": lambda: HLBL(width=8, epochs=1).fit(corpus),
        "LDS.fit": lambda: LDS(n_states=4).fit(corpus),
        "nlp.pipe with lds_embeddings": lambda: list(nlp.pipe(docs)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", action="store_true", help="list the files of each job")
    arguments = parser.parse_args()
    rows = []
    for name, job in jobs().items():
        job()
        files = walked(job)
        rows.append({"job": name, "files": len(files), "at af2219c": BEFORE[name]})
        print(f"{name}: {len(files)} files")
        if arguments.files:
            print("\n".join(f"    {each}" for each in files))
    sources = list(PACKAGES.glob("*/src/**/*.py"))
    lines = sum(len(source.read_text(encoding="utf-8").splitlines()) for source in sources)
    print(f"{len(sources)} source files, {lines:,} lines")
    reporting.save("walks", {"files": len(sources), "lines": lines}, rows)


if __name__ == "__main__":
    main()
