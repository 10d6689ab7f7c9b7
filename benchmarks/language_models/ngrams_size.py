"""N-gram models by size: the memory that training takes within a budget, files on disk, what pruning and 8 bits cost.

    python -m benchmarks.language_models.ngrams_size [--only training files] [--millions 0] [--budgets 1 0]

Texts are Wikipedia's good articles, and as many million tokens as ``--millions`` says, made of them: sentences drawn
again and again, with every tenth word replaced by one drawn from all. Each training has a process of its own, whose
largest resident memory is reported. KenLM's files are made by its program `build_binary` from our ARPA file, and its
training by `lmplz` from the same text and with as much memory, where these are on PATH.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import parts, reporting
from benchmarks.language_models.scale import corpora
from tacenda import Corpus
from tacenda.corpus.storage import GrowingArray, Place
from tacenda_lm import KneserNey

Row = dict[str, Any]
PROTOCOL = {
    "text": "good and featured articles of English Wikipedia, 40,000 most frequent words; generated: sentences of it "
    "drawn again, every tenth word drawn from all; order 5",
    "budget GB": "the option memory_gb; default is a quarter of the machine's memory",
    "peak GB": "the most that was resident in the process: interpreter, libraries, compiled code and corpus included",
    "anonymous GB": "the most of it that was not a mapped file, which the system can take back at any time: RssAnon",
    "seconds": "of the processor; ours without reading the corpus, lmplz's with reading the text and printing the ARPA "
    "file, which is thrown away",
    "table": "the first digits of a hash of the table: equal tables have equal probabilities bit for bit",
    "MB": "of the whole folder or file",
    "kenlm": "build_binary of our ARPA file: trie, and trie -q 8 -b 8",
    "perplexity": "dev and test part of Wikipedia, </s> predicted, unknown words counted as <unk>",
}
THRESHOLDS = (1e-9, 1e-8, 1e-7)


def generated(millions: int) -> Corpus:
    """That many million tokens on disk, drawn from Wikipedia."""
    train, _, _ = corpora(0)
    folder = parts.kept_folder() / f"corpus-generated-{millions}"
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(0)
        ids = GrowingArray("ids", np.int32, Place(folder))
        offsets = GrowingArray("offsets", np.int64, Place(folder))
        offsets.append(np.zeros(1, np.int64))
        while len(ids) < millions * 1_000_000:
            chosen = [train.sentence(int(i)) for i in rng.integers(len(train), size=4096)]
            text = np.concatenate(chosen)
            anew = rng.random(len(text)) < 0.1
            text[anew] = train.ids[rng.integers(train.n_tokens, size=int(anew.sum()))]
            offsets.append(len(ids) + np.cumsum(list(map(len, chosen))))
            ids.append(text)
        ids.finish(), offsets.finish()
        (folder / "done").touch()
    ids, offsets = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("ids", "offsets"))
    return Corpus(ids, offsets, train.vocabulary)


def text_of(millions: int) -> Corpus:
    return generated(millions) if millions else corpora(0)[0]


def train(millions: int, budget: float) -> Row:
    """One training, in this process."""
    corpus = text_of(millions)
    before = _peak()
    start = time.process_time()
    model = KneserNey(order=5, memory_gb=budget or None).fit(corpus)
    seconds, peak = (
        time.process_time() - start,
        _peak(),
    )  # the digest touches all of the mapped table
    digest = hashlib.sha256(model.table.layout.tobytes())
    for block in np.array_split(model.table.data, 64):
        digest.update(np.ascontiguousarray(block).data)
    return {
        "what": f"tacenda, {'generated' if millions else 'wikipedia'} {millions or ''}, {budget or 'default'}",
        "trainer": "tacenda",
        "tokens": corpus.n_tokens,
        "n-grams": sum(model.table.sizes),
        "budget GB": budget or "default",
        "seconds": seconds,
        "peak GB": peak,
        "before GB": before,
        "table": digest.hexdigest()[:12],
    }


def _peak() -> float:
    return reporting.peak() / 1e9


def lmplz(millions: int, budget: float) -> Row | None:
    """The same by lmplz, from the text with the words of the vocabulary; None where it is not installed."""
    program = shutil.which("lmplz")
    if program is None or not budget:
        return None
    corpus = text_of(millions)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text")
        with path.open("w", encoding="utf-8") as file:
            for ids in corpus.sentences():
                file.write(" ".join(corpus.vocabulary.decode(ids)) + "\n")
        arguments = ("-o", "5", "-S", f"{int(budget * 1000)}M", "-T", folder, "--skip_symbols")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with path.open("rb") as text:
            subprocess.run([program, *arguments], stdin=text, stdout=subprocess.DEVNULL, check=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return {
        "what": f"lmplz, {'generated' if millions else 'wikipedia'} {millions or ''}, {budget}",
        "trainer": "lmplz",
        "tokens": corpus.n_tokens,
        "budget GB": budget,
        "seconds": seconds,
        "peak GB": used.ru_maxrss * 1024 / 1e9,
    }


def files() -> Iterator[Row]:
    """Sizes on disk and perplexities: exact, 8 bits, pruned; KenLM's of the exact model."""
    corpus, dev, test = corpora(0)
    options: dict[str, dict[str, Any]] = {"exact": {}, "8 bits": {"bits": 8}}
    options |= {f"pruned {t:g}": {"prune": t} for t in THRESHOLDS}
    for name, given in options.items():
        model = KneserNey(order=5, **given).fit(corpus)
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder, "model"))
            size = sum(each.stat().st_size for each in Path(folder, "model").rglob("*"))
            yield {
                "what": name,
                "n-grams": sum(model.table.sizes),
                "MB": size / 1e6,
                "dev": model.perplexity(dev).value,
                "test": model.perplexity(test).value,
            }
            if name == "exact":
                yield from _kenlm_files(model, Path(folder))


def _kenlm_files(model: KneserNey, folder: Path) -> Iterator[Row]:
    program = shutil.which("build_binary")
    if program is None:
        print("build_binary is not on PATH: the sizes of KenLM's files are missing.")
        return
    model.to_arpa(folder / "arpa")
    for name, flags in (("trie", ()), ("trie, 8 bits", ("-q", "8", "-b", "8"))):
        command = [program, *flags, "-T", str(folder), "trie", "arpa", "binary"]
        subprocess.run(command, check=True, cwd=folder, capture_output=True)
        size = (folder / "binary").stat().st_size
        yield {"what": f"kenlm {name}", "n-grams": sum(model.table.sizes), "MB": size / 1e6}


def main() -> None:
    parser = reporting.Command(__doc__, "no-save")
    parser.add_argument(
        "--only", nargs="+", choices=("training", "files"), default=("training", "files")
    )
    parser.add_argument(
        "--millions", type=int, nargs="+", default=[0, 200], help="tokens; 0 is Wikipedia"
    )
    parser.add_argument(
        "--budgets", type=float, nargs="+", default=[1, 0], help="GB; 0 is the default"
    )
    parser.add_argument("--in-this-process", nargs=2, type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_this_process:
        millions, budget = options.in_this_process
        print(json.dumps(train(int(millions), budget)))
        return
    works: dict[str, Callable[[], Iterator[Row]]] = {
        "training": lambda: _trainings(options.millions, options.budgets),
        "files": files,
    }
    for name in options.only:
        rows = list(works[name]())
        result = f"lm-ngrams-{name}"
        reporting.save(result, PROTOCOL, rows, seeds=(0,), keep="what", dry=options.no_save)


def _trainings(millions: list[int], budgets: list[float]) -> Iterator[Row]:
    for n in millions:
        text_of(n)  # made once, before the processes that read it
        for budget in budgets:
            if n and not budget:
                continue  # whether a budget holds is what generated text is for
            command = [sys.executable, "-m", "benchmarks.language_models.ngrams_size"]
            command += ["--in-this-process", str(n), str(budget)]
            yield _watched(command)
            theirs = lmplz(n, budget)
            if theirs is not None:
                yield theirs


def _watched(command: list[str]) -> Row:
    """The row that a process prints, and the most memory that it had of its own, looked up twenty times a second."""
    most = 0
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(command, stdout=printed)
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
            most = max([most, *(int(line.split()[1]) for line in lines if line[:8] == "RssAnon:")])
            time.sleep(0.05)
        if process.returncode:
            raise SystemExit(process.returncode)
        printed.seek(0)
        row: Row = json.loads(printed.read().splitlines()[-1])
    return row | ({"anonymous GB": most * 1024 / 1e9} if most else {})


if __name__ == "__main__":
    main()
