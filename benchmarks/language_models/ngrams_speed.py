"""N-gram models beside KenLM: tokens scored a second with the same model, and seconds to count and estimate.

    python -m benchmarks.language_models.ngrams_speed [--repeats 7] [--orders 3 5] [--data ptb wikitext-2]

KenLM is the module `kenlm` of the package index, built from source by pip. It reads the ARPA file that we write into
its own hash tables ("probing"), so both score with the same numbers, which is checked. Without the module its rows are
left out.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks import reporting
from benchmarks.language_models import timing
from tacenda import Corpus, datasets
from tacenda_lm import KneserNey
from tacenda_lm.sequences import with_ends

OURS, THEIRS = "ours", "kenlm"
PROTOCOL = {
    "model": "modified Kneser-Ney; kenlm scores with the same model, from our ARPA file, in its hash tables (probing)",
    "text": "the test text, a line a sentence; a rate counts words and </s>",
    "ids": "score_corpus, ids given",
    "list of lines": "score_batch of strings: splitting them and looking words up included",
    "line by line": "score(line) for every line, of our model and of kenlm.Model",
    "training": "counting and estimating from a corpus of ids, reading and tokenizing left out; our training only: "
    "the kenlm module has none, and lmplz is a program of its own",
    "repeats": timing.PROTOCOL,
    "largest difference": "of a line's log10 probability between the two",
    "load": "processes that wanted a core in the last minute, when the row was done",
}


def other_model(model: KneserNey) -> Any:
    """The same model in kenlm; None where that is not installed."""
    try:
        import kenlm
    except ImportError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.arpa")
        model.to_arpa(path)
        return kenlm.Model(str(path))


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
    theirs = other_model(model)
    lines = [line for line in files["test"].read_text("utf-8").splitlines() if line.strip()]
    held_out = Corpus.from_text(files["test"], vocabulary=model.vocabulary)
    text = with_ends(held_out.ids, held_out.offsets, model.vocabulary.boundary_id)
    works: dict[tuple[str, str], Callable[[], Any]] = {
        (OURS, "ids"): lambda: model.score_corpus(*text),
        (OURS, "list of lines"): lambda: model.score_batch(lines),
        (OURS, "line by line"): lambda: [model.score(line) for line in lines],
    }
    if theirs is not None:
        works[THEIRS, "line by line"] = lambda: [theirs.score(line) for line in lines]
        difference = largest_difference(model, theirs, lines)
    seconds = timing.interleaved({" ".join(key): work for key, work in works.items()}, repeats)
    about = {"data": data, "order": order}
    load = round(os.getloadavg()[0], 2)
    for who, how in works:
        found = timing.rate(len(text[0]) / 1e6, seconds[f"{who} {how}"], "M tokens/s")
        row = {**about, "part": "scoring", "scorer": who, "given": how, **found, "load": load}
        yield row | ({"largest difference": difference} if who == THEIRS else {})
    training = {"training": lambda: KneserNey(order=order).fit(corpus)}
    trained = reporting.summary(timing.interleaved(training, repeats)["training"])
    yield {
        **about,
        "part": "training",
        "seconds": trained["median"],
        "least": trained["min"],
        "most": trained["max"],
        "runs": trained["repeats"],
        "load": load,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--orders", type=int, nargs="+", default=[3, 5])
    parser.add_argument("--data", nargs="+", default=["ptb", "wikitext-2"])
    parser.add_argument("--no-save", action="store_true", help="measure, leave results/ alone")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for data in options.data:
        for order in options.orders:
            rows += rows_of(data, order, options.repeats)
            print(rows[-1], flush=True)
    if options.no_save:
        reporting.print_table(rows)
        return
    try:
        peer = version("kenlm")
    except PackageNotFoundError:
        print("kenlm is not installed (pip install kenlm): its rows are missing.")
        peer = "not installed"
    reporting.save("lm-ngrams-speed", {**PROTOCOL, "kenlm": peer}, rows)


if __name__ == "__main__":
    main()
