"""N-gram models beside KenLM: tokens scored a second with the same model, and seconds to open and read files.

    python -m benchmarks.language_models.ngrams_speed [--repeats 7] [--orders 3 5] [--data ptb wikitext-2]

KenLM is the module `kenlm` of the package index, built from source by pip. It reads the ARPA file that we write into
its own hash tables ("probing"), and into its trie where the program `build_binary` is on PATH, so all score with the
same numbers, which is checked. Without the module its rows are left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import tacenda
from benchmarks import reporting
from benchmarks.language_models.contexts import Texts
from benchmarks.reporting import Row, Table, interleaved, main
from tacenda_lm import KneserNey, State
from tacenda_lm.sequences import with_ends

LINE = "the first sentence that a user tries"
OURS, THEIRS, TRIE = "ours", "kenlm", "kenlm trie"
Works = dict[tuple[str, str], Callable[[], Any]]
FRESH = """import time
start = time.perf_counter()
import {module}
{opened}.score({line!r})
print(time.perf_counter() - start)
"""


def protocol(options: Any) -> dict[str, Any]:
    return {
        "model": "modified Kneser-Ney; kenlm scores with the same model, from our ARPA file, in its hash tables "
        "(probing)",
        "text": "the test text, a line a sentence; a rate counts words and </s>",
        "ids": "score_corpus, ids given",
        "list of lines": "score_batch of strings: splitting them and looking words up included",
        "line by line": "score(line) for every line, of our model and of kenlm.Model",
        "perplexities": "perplexity(line) for every line, likewise",
        "word by word": "BaseScore for every word, each state from the one before",
        "files": "opening is tacenda.load of a saved model and kenlm.Model of a trie, both mapped, and one line "
        "scored then; reading is of an ARPA file, ours with its check that distributions sum to one; seconds of the "
        "processor. A fresh process: from before the import to the score of a line, by the clock, bytecode kept",
        "repeats": reporting.TURNS,
        "times kenlm": "kenlm's seconds for the same by ours, the median of the turns",
        "largest difference": "of a line's log10 probability between the two",
        "load": "processes that wanted a core in the last minute, when the row was done",
        "kenlm": reporting.installed("kenlm") or "not installed",
    }


def other_models(model: KneserNey, folder: Path) -> dict[str, Any]:
    """Return the same model in kenlm, by name; none where that is not installed."""
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
) -> Iterator[Row]:
    """Time opening saved models and reading an ARPA file."""
    model.save(folder / "saved")
    works: Works = {
        (OURS, "opening"): lambda: tacenda.load(folder / "saved"),
        (OURS, "opening and a line"): lambda: tacenda.load(folder / "saved").score(LINE),  # type: ignore[attr-defined]
    }
    if theirs:
        import kenlm

        works[OURS, "reading"] = lambda: KneserNey.from_arpa(folder / "model.arpa")
        works[THEIRS, "reading"] = lambda: kenlm.Model(str(folder / "model.arpa"))
    if TRIE in theirs:
        trie = str(folder / "model.trie")
        works[THEIRS, "opening"] = lambda: kenlm.Model(trie)
        works[THEIRS, "opening and a line"] = lambda: kenlm.Model(trie).score(LINE)
    measured = interleaved(works, repeats)
    for (who, how), seconds in measured.items():
        row = {"part": "files", "scorer": who, "given": how}
        row |= reporting.timing(seconds, "ms", 1000) | {"load": reporting.load()}
        if (THEIRS, how) in measured:
            row["times kenlm"] = reporting.ratio(measured[THEIRS, how], seconds)["median"]
        yield row
    yield from fresh_rows(folder, {who for who, how in works if how == "opening"}, repeats)


def fresh_rows(folder: Path, scorers: set[str], repeats: int) -> Iterator[Row]:
    """Time what commands and workers pay: a new process imports, opens a saved model and scores a line."""
    programs = {
        OURS: FRESH.format(
            module="tacenda", opened=f"tacenda.load({str(folder / 'saved')!r})", line=LINE
        ),
        THEIRS: FRESH.format(
            module="kenlm", opened=f"kenlm.Model({str(folder / 'model.trie')!r})", line=LINE
        ),
    }
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    found: dict[str, list[float]] = {who: [] for who in sorted(scorers)}
    for turn in range(repeats + 1):
        for who, seconds in found.items():
            command = [sys.executable, "-c", programs[who]]
            printed = subprocess.run(command, check=True, capture_output=True, env=environment)
            seconds.extend([float(printed.stdout)] if turn else [])  # the first compiles bytecode
    for who, seconds in found.items():
        row = {"part": "files", "scorer": who, "given": "opening and a line in a fresh process"}
        yield {**row, **reporting.timing(seconds, "ms", 1000), "load": reporting.load()}


def largest_difference(model: KneserNey, theirs: Any, lines: list[str]) -> float:
    """Compare the log10 probabilities of lines; end the benchmark if the two are not one model."""
    ours = model.score_batch(lines)
    found = max(abs(theirs.score(line) - own) for line, own in zip(lines, ours, strict=True))
    if found > 1e-3:
        raise SystemExit(f"kenlm scores a line differently, by {found}: it is not the same model.")
    return found


def scoring_rows(
    model: KneserNey, theirs: dict[str, Any], texts: Texts, repeats: int
) -> Iterator[Row]:
    """Time each way of scoring, by each scorer."""
    lines, held_out = texts.test_lines, texts.test
    text = with_ends(held_out.ids, held_out.offsets, model.vocabulary.boundary_id)
    split = [line.split() for line in lines]
    works: Works = {
        (OURS, "ids"): lambda: model.score_corpus(*text),
        (OURS, "list of lines"): lambda: model.score_batch(lines),
        (OURS, "line by line"): lambda: [model.score(line) for line in lines],
        (OURS, "perplexities"): lambda: [model.perplexity(line) for line in lines],
        (OURS, "word by word"): lambda: word_by_word(model, State, split),
    }
    differences = {}
    for who, other in theirs.items():
        import kenlm

        works[who, "line by line"] = lambda other=other: [other.score(line) for line in lines]
        works[who, "perplexities"] = lambda other=other: [other.perplexity(line) for line in lines]
        works[who, "word by word"] = lambda other=other: word_by_word(other, kenlm.State, split)
        differences[who] = largest_difference(model, other, lines)
    n_words = sum(map(len, split))
    measured = interleaved(works, repeats)
    for (who, how), seconds in measured.items():
        n = n_words if how == "word by word" else len(text[0])
        row = {"part": "scoring", "scorer": who, "given": how}
        row |= reporting.rate(n / 1e6, seconds, "M tokens/s") | {"load": reporting.load()}
        if (THEIRS, how) in measured:
            row["times kenlm"] = reporting.ratio(measured[THEIRS, how], seconds)["median"]
        yield row | ({"largest difference": differences[who]} if who in differences else {})


def rows(options: Any) -> Iterator[Row]:
    for data, order in product(options.data, options.orders):
        texts = Texts(data)
        model = KneserNey(order=order).fit(texts.train)
        about = {"data": data, "order": order}
        with tempfile.TemporaryDirectory() as name:
            theirs = other_models(model, Path(name))
            if not theirs:
                options.leave_out(THEIRS, "it is not installed (pip install kenlm)")
            elif TRIE not in theirs:
                options.leave_out(TRIE, "KenLM's build_binary is not installed")
            for row in (
                *scoring_rows(model, theirs, texts, options.repeats),
                *file_rows(model, theirs, Path(name), options.repeats),
            ):
                yield {**about, **row}


if __name__ == "__main__":
    table = Table("lm-ngrams-speed", protocol, rows, seeds=None)
    main(__doc__, table, repeats=7, orders=[3, 5], data=("ptb", "wikitext-2"))
