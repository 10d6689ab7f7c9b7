"""N-gram models by size: the memory that training takes within a budget, from text to ARPA, files, what 8 bits cost.

    python -m benchmarks.language_models.ngrams_size [--tables lm-ngrams-files] [--millions 0] [--budgets 1 0]

Texts are Wikipedia's good articles, and as many million tokens as ``--millions`` says, made of them: sentences drawn
again and again, with every tenth word replaced by one drawn from all. Each training has a process of its own, whose
largest resident memory is reported. KenLM's files are made by its program `build_binary` from our ARPA file, and its
training by `lmplz` from the same text and with as much memory, where these are on PATH.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import freshness, kept, reporting
from benchmarks.language_models.scale import corpora
from benchmarks.reporting import Row, Table, in_process, interleaved, main
from tacenda import Corpus, datasets
from tacenda.corpus.storage import GrowingArray
from tacenda_lm import KneserNey

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
ARPA_PROTOCOL = {
    "text": "the training text, a line a sentence; order 5",
    "seconds": "of the processor, one thread, from the start of a process to its end: text read, counted and "
    "estimated, ARPA file written; ours with its imports, with Python's bytecode and numba's compiled code kept from "
    "before, in an environment that has tacenda-lm and what it needs, but none of the libraries of developers",
    "repeats": reporting.TURNS,
    "of lmplz": "the median of the ratios of runs in one turn",
    "lmplz": "-S 1G --skip_symbols",
}
FROM_TEXT = """
import sys
from pathlib import Path
from tacenda_lm import KneserNey
KneserNey(order=5).fit(Path(sys.argv[1])).to_arpa(sys.argv[2])
"""
THRESHOLDS = (1e-9, 1e-8, 1e-7)


def text_of(millions: int) -> Corpus:
    """Return Wikipedia, or that many million tokens on disk, drawn from it."""
    train, _, _ = corpora()
    if not millions:
        return train

    def make(folder: Path) -> None:
        rng = np.random.default_rng(0)
        ids = GrowingArray(np.int32, folder / "ids.npy")
        offsets = GrowingArray(np.int64, folder / "offsets.npy")
        offsets.append(np.zeros(1, np.int64))
        while ids.size < millions * 1_000_000:
            chosen = [train.sentence(int(i)) for i in rng.integers(len(train), size=4096)]
            text = np.concatenate(chosen)
            anew = rng.random(len(text)) < 0.1
            text[anew] = train.ids[rng.integers(train.n_tokens, size=int(anew.sum()))]
            offsets.append(ids.size + np.cumsum(list(map(len, chosen))))
            ids.append(text)
        ids.finish(), offsets.finish()

    folder, _ = kept.folder("corpus-generated", {"millions": millions}, make)
    parts = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("ids", "offsets"))
    return Corpus(*parts, train.vocabulary)


def what(trainer: str, millions: int, budget: float) -> str:
    return f"{trainer}, {'generated' if millions else 'wikipedia'} {millions or ''}, {budget or 'default'}"


def train(millions: int, budget: float) -> Row:
    """Train in this process, and watch its memory."""
    corpus, most = text_of(millions), [0]
    before, done = reporting.peak() / 1e9, threading.Event()

    def watch() -> None:
        status = Path("/proc/self/status")
        while status.exists() and not done.wait(0.05):
            lines = status.read_text(encoding="utf-8").splitlines()
            most.extend(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    start = time.process_time()
    model = KneserNey(order=5, memory_gb=budget or None).fit(corpus)
    # the digest touches all of the mapped table
    seconds, peak = time.process_time() - start, reporting.peak() / 1e9
    done.set(), watcher.join()
    digest = hashlib.sha256(model.table.layout.tobytes())
    for block in np.array_split(model.table.data, 64):
        digest.update(np.ascontiguousarray(block).data)
    return {
        "what": what("tacenda", millions, budget),
        "trainer": "tacenda",
        "tokens": corpus.n_tokens,
        "n-grams": sum(model.table.sizes),
        "budget GB": budget or "default",
        "seconds": seconds,
        "peak GB": peak,
        "before GB": before,
        "table": digest.hexdigest()[:12],
        **({"anonymous GB": max(most) * 1024 / 1e9} if max(most) else {}),
    }


def lmplz(millions: int, budget: float) -> Iterator[Row]:
    """Train with lmplz, from the text with the words of the vocabulary; nothing where it is not installed."""
    program = shutil.which("lmplz")
    if program is None or not budget:
        return
    corpus = text_of(millions)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text")
        with path.open("w", encoding="utf-8") as file:
            for ids in corpus.sentences():
                file.write(" ".join(corpus.vocabulary.decode(ids)) + "\n")
        arguments = ("-o", "5", "-S", f"{int(budget * 1000)}M", "-T", folder, "--skip_symbols")
        with path.open("rb") as text:
            process = subprocess.Popen([program, *arguments], stdin=text, stdout=subprocess.DEVNULL)
            _, process.returncode, used = os.wait4(process.pid, 0)  # of no other child
        if process.returncode:
            raise SystemExit(f"lmplz ended with {process.returncode}")
    yield {
        "what": what("lmplz", millions, budget),
        "trainer": "lmplz",
        "tokens": corpus.n_tokens,
        "budget GB": budget,
        "seconds": used.ru_utime + used.ru_stime,
        "peak GB": used.ru_maxrss * 1024 / 1e9,
    }


def trainings(options: Any) -> Iterator[Row]:
    for millions, budget in product(options.millions, options.budgets):
        if millions and not budget:
            continue  # whether a budget holds is what generated text is for
        text_of(millions)  # made once, before the process that reads it
        yield in_process(train, millions, budget)
        yield from lmplz(millions, budget)


def seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def python_of_users() -> Path:
    """Return the Python of an environment that `pip install tacenda-lm` has made, of the code of today.

    numba imports some libraries wherever they are installed, and coverage, which developers have, is one of them.
    """

    def make(folder: Path) -> None:
        environment = folder / "environment"
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        packages = [freshness.ROOT / "packages" / name for name in ("tacenda", "tacenda-lm")]
        limits = freshness.ROOT / "constraints.txt"
        pip = [environment / "bin" / "python", "-m", "pip", "install", "--quiet", "-c", limits]
        subprocess.run([*pip, *packages], check=True)

    folder, _ = kept.folder("environment-lm", {"code": kept.whole()}, make)
    return folder / "environment" / "bin" / "python"


def arpa_files(options: Any) -> Iterator[Row]:
    """Time text to ARPA file, each run in a process of its own."""
    python = python_of_users()
    for data in ("ptb", "wikitext-2"):
        source = datasets.locate(data)["train"]
        with tempfile.TemporaryDirectory() as folder:
            text, arpa = Path(folder, "text"), Path(folder, "arpa")
            packed = source.read_bytes()
            text.write_bytes(lzma.decompress(packed) if source.suffix == ".xz" else packed)
            commands = {"tacenda": [python, "-W", "ignore", "-c", FROM_TEXT, text, arpa]}
            if program := shutil.which("lmplz"):
                flags = ("-o", "5", "-S", "1G", "-T", folder, "--skip_symbols")
                commands["lmplz"] = [program, *flags, "--text", text, "--arpa", arpa]
            else:
                options.leave_out("lmplz", "it is not on PATH")
            env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}
            works = {
                name: lambda c=command, env=env: subprocess.run(
                    c, env=env, check=True, capture_output=True
                )
                for name, command in commands.items()
            }
            seconds = interleaved(works, options.repeats, seconds_of_children)
        for name, own in seconds.items():
            row = {
                "what": f"{name}, {data}",
                "trainer": name,
                "text": data,
                **reporting.timing(own),
            }
            if name == "tacenda" and "lmplz" in seconds:
                row["of lmplz"] = reporting.ratio(own, seconds["lmplz"])["median"]
            yield {**row, "load": reporting.load()}


def files(options: Any) -> Iterator[Row]:
    """Measure sizes on disk and perplexities: exact, 8 bits, pruned; KenLM's of the exact model."""
    corpus, dev, test = corpora()
    forms: dict[str, dict[str, Any]] = {"exact": {}, "8 bits": {"bits": 8}}
    forms |= {f"pruned {t:g}": {"prune": t} for t in THRESHOLDS}
    for name in options.chosen(forms):
        model = KneserNey(order=5, **forms[name]).fit(corpus)
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
                yield from kenlm_files(options, model, Path(folder))


def kenlm_files(options: Any, model: KneserNey, folder: Path) -> Iterator[Row]:
    """Yield the sizes of KenLM's files of a model."""
    program = shutil.which("build_binary")
    if program is None:
        options.leave_out("kenlm", "build_binary is not on PATH")
        return
    model.to_arpa(folder / "arpa")
    for name, flags in (("trie", ()), ("trie, 8 bits", ("-q", "8", "-b", "8"))):
        command = [program, *flags, "-T", str(folder), "trie", "arpa", "binary"]
        subprocess.run(command, check=True, cwd=folder, capture_output=True)
        size = (folder / "binary").stat().st_size
        yield {"what": f"kenlm {name}", "n-grams": sum(model.table.sizes), "MB": size / 1e6}


if __name__ == "__main__":
    main(
        __doc__,
        Table("lm-ngrams-training", PROTOCOL, trainings, key="what"),
        Table("lm-ngrams-arpa", ARPA_PROTOCOL, arpa_files, key="what"),
        Table("lm-ngrams-files", PROTOCOL, files, key="what"),
        millions=[0, 200],
        budgets=[1.0, 0.0],
        repeats=7,
    )
