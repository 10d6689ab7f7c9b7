"""N-gram models beside KenLM: tokens scored a second with the same model, and seconds to count and estimate.

    python -m benchmarks.language_models.ngrams_speed [--repeats 7] [--orders 3 5] [--data ptb wikitext-2]

KenLM is the module `kenlm` of the package index, built from source by pip. It reads the ARPA file that we write into
its own hash tables ("probing"), and into its trie where the program `build_binary` is on PATH, so all score with the
same numbers, which is checked. Without the module its rows are left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import tacenda
from benchmarks import reporting
from benchmarks.language_models import timing
from tacenda import Corpus, datasets
from tacenda_lm import KneserNey, State
from tacenda_lm.sequences import with_ends

LINE = "the first sentence that a user tries"
OURS, THEIRS, TRIE = "ours", "kenlm", "kenlm trie"
PROTOCOL = {
    "model": "modified Kneser-Ney; kenlm scores with the same model, from our ARPA file, in its hash tables (probing)",
    "text": "the test text, a line a sentence; a rate counts words and </s>",
    "ids": "score_corpus, ids given",
    "list of lines": "score_batch of strings: splitting them and looking words up included",
    "line by line": "score(line) for every line, of our model and of kenlm.Model",
    "word by word": "BaseScore for every word, each state from the one before",
    "files": "opening is tacenda.load of a saved model and kenlm.Model of a trie, both mapped, and one line scored "
    "then; reading is of an ARPA file, ours with its check that distributions sum to one; seconds of the processor",
    "training": "counting and estimating from a corpus of ids, reading and tokenizing left out; our training only: "
    "the kenlm module has none, and lmplz is a program of its own",
    "repeats": timing.PROTOCOL,
    "largest difference": "of a line's log10 probability between the two",
    "load": "processes that wanted a core in the last minute, when the row was done",
}


def other_models(model: KneserNey, folder: Path) -> dict[str, Any]:
    """The same model in kenlm, by name; none where that is not installed."""
    try:
        import kenlm
    except ImportError:
        return {}
    model.to_arpa(folder / "model.arpa")
    found = {THEIRS: kenlm.Model(str(folder / "model.arpa"))}
    program = shutil.which("build_binary")
    if program is not None:
        command = [program, "-T", str(folder), "trie", "model.arpa", "model.trie"]
        subprocess.run(command, check=True, cwd=folder, capture_output=True)
        found[TRIE] = kenlm.Model(str(folder / "model.trie"))
    return found


def word_by_word(model: Any, state: type, lines: list[list[str]]) -> None:
    """Score every word from the state before it."""
    for words in lines:
        here, after = state(), state()
        model.BeginSentenceWrite(here)
        for word in words:
            model.BaseScore(here, word, after)
            here, after = after, here


def file_rows(
    model: KneserNey, theirs: dict[str, Any], folder: Path, repeats: int
) -> Iterator[dict[str, Any]]:
    """Opening saved models and reading an ARPA file, in seconds."""
    model.save(folder / "saved")
    works: dict[str, Callable[[], Any]] = {
        "ours, opening": lambda: tacenda.load(folder / "saved"),
        "ours, opening and a line": lambda: tacenda.load(folder / "saved").score(LINE),  # type: ignore[attr-defined]
    }
    if theirs:
        import kenlm

        works["ours, reading"] = lambda: KneserNey.from_arpa(folder / "model.arpa")
        works["kenlm, reading"] = lambda: kenlm.Model(str(folder / "model.arpa"))
    if TRIE in theirs:
        trie = str(folder / "model.trie")
        works["kenlm, opening"] = lambda: kenlm.Model(trie)
        works["kenlm, opening and a line"] = lambda: kenlm.Model(trie).score(LINE)
    for name, seconds in timing.interleaved(works, repeats, time.process_time).items():
        found = reporting.summary(seconds)
        who, how = name.split(", ")
        yield {
            "part": "files",
            "scorer": who,
            "given": how,
            "ms": 1000 * found["median"],
            "least": 1000 * found["min"],
            "most": 1000 * found["max"],
            "runs": found["repeats"],
        }


def largest_difference(model: KneserNey, theirs: Any, lines: list[str]) -> float:
    """Between the log10 probabilities of a line; ends the benchmark if the two are not one model."""
    ours = model.score_batch(lines)
    found = max(abs(theirs.score(line) - own) for line, own in zip(lines, ours, strict=True))
    if found > 1e-3:
        raise SystemExit(f"kenlm scores a line differently, by {found}: it is not the same model.")
    return found


def rows_of(data: str, order: int, repeats: int) -> Iterator[dict[str, Any]]:
    """One row for each way of scoring, and one for the training."""
    files = datasets.locate(data)
    corpus = Corpus.from_text(files["train"])
    model = KneserNey(order=order).fit(corpus)
    with tempfile.TemporaryDirectory() as name:
        theirs = other_models(model, Path(name))
        about = {"data": data, "order": order}
        lines = [line for line in files["test"].read_text("utf-8").splitlines() if line.strip()]
        held_out = Corpus.from_text(files["test"], vocabulary=model.vocabulary)
        text = with_ends(held_out.ids, held_out.offsets, model.vocabulary.boundary_id)
        yield from ({**about, **row} for row in _scoring(model, theirs, text, lines, repeats))
        load = round(os.getloadavg()[0], 2)
        for row in file_rows(model, theirs, Path(name), repeats):
            yield {**about, **row, "load": load}
    training = {"training": lambda: KneserNey(order=order).fit(corpus)}
    trained = reporting.summary(timing.interleaved(training, repeats)["training"])
    yield {
        **about,
        "part": "training",
        "seconds": trained["median"],
        "least": trained["min"],
        "most": trained["max"],
        "runs": trained["repeats"],
        "load": round(os.getloadavg()[0], 2),
    }


def _scoring(
    model: KneserNey, theirs: dict[str, Any], text: Any, lines: list[str], repeats: int
) -> Iterator[dict[str, Any]]:
    """One row for each way of scoring, by each scorer."""
    split = [line.split() for line in lines]
    works: dict[tuple[str, str], Callable[[], Any]] = {
        (OURS, "ids"): lambda: model.score_corpus(*text),
        (OURS, "list of lines"): lambda: model.score_batch(lines),
        (OURS, "line by line"): lambda: [model.score(line) for line in lines],
        (OURS, "word by word"): lambda: word_by_word(model, State, split),
    }
    differences = {}
    for who, other in theirs.items():
        import kenlm

        works[who, "line by line"] = lambda other=other: [other.score(line) for line in lines]
        works[who, "word by word"] = lambda other=other: word_by_word(other, kenlm.State, split)
        differences[who] = largest_difference(model, other, lines)
    seconds = timing.interleaved({", ".join(key): work for key, work in works.items()}, repeats)
    load = round(os.getloadavg()[0], 2)
    n_words = sum(map(len, split))
    for who, how in works:
        n = n_words if how == "word by word" else len(text[0])
        found = timing.rate(n / 1e6, seconds[f"{who}, {how}"], "M tokens/s")
        row = {"part": "scoring", "scorer": who, "given": how, **found, "load": load}
        yield row | ({"largest difference": differences[who]} if who in differences else {})


def main() -> None:
    parser = reporting.Command(__doc__, "no-save")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--orders", type=int, nargs="+", default=[3, 5])
    parser.add_argument("--data", nargs="+", default=["ptb", "wikitext-2"])
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for data in options.data:
        for order in options.orders:
            rows += rows_of(data, order, options.repeats)
            print(rows[-1], flush=True)
    try:
        peer = version("kenlm")
    except PackageNotFoundError:
        print("kenlm is not installed (pip install kenlm): its rows are missing.")
        peer = "not installed"
    reporting.save("lm-ngrams-speed", {**PROTOCOL, "kenlm": peer}, rows, dry=options.no_save)


if __name__ == "__main__":
    main()
