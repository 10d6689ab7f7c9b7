"""N-gram models: perplexity by order and smoothing, seconds to train, tokens scored a second.

    python -m benchmarks.language_models.ngrams [--repeats 5]

Penn Treebank (Mikolov's split) and WikiText-2, from TACENDA_DATA or the cache. Where the kenlm module is
installed it scores the test text with the same model, from the ARPA file that we write. Times are of the
processor, one thread, compiled code warm, so that a busy machine counts less; the least of the repetitions.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import reporting
from tacenda import Corpus, datasets
from tacenda_lm import KneserNey
from tacenda_lm.sequences import with_ends

MODELS = [
    *({"order": order} for order in (2, 3, 4, 5, 6)),
    *({"order": n, "smoothing": "backoff", "min_count": 2} for n in (3, 5)),
    *({"order": n, "smoothing": "good_turing", "min_count": 2} for n in (3, 5)),
]
NAMES = {
    "interpolated": "modified Kneser-Ney",
    "backoff": "Kneser-Ney, back-off",
    "good_turing": "Good-Turing (Katz)",
}
PROTOCOL = {
    "text": "a line is a sentence, empty lines left out; <unk> in the text is an ordinary word; "
    "</s> is predicted, <s> is not; the vocabulary is closed",
    "train s": "counting and estimating from a corpus of ids; tokenizing apart, as read s",
    "ids M/s": "score_corpus of the test text, ids given, </s> counted as tokens",
    "lines M/s": "score_batch of the test text as a list of strings, splitting and looking up included",
    "one by one M/s": "score(line) for every line, as is done with kenlm",
    "kenlm M/s": "kenlm.Model.score(line) for every line; the same model, probing, from our ARPA file",
    "min_count": "2 where it is not modified Kneser-Ney, as SRILM's default for three words and more",
}


def least(call: Callable[[], Any], repeats: int) -> float:
    call()
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return min(seconds)


def measured(name: str, settings: dict[str, Any], repeats: int) -> dict[str, Any]:
    files = datasets.locate(name)
    start = time.process_time()
    corpus = Corpus.from_text(files["train"])
    read = time.process_time() - start
    model = KneserNey(**settings)
    train = least(lambda: model.fit(corpus), min(repeats, 3))
    valid, test = (model.perplexity(files[role]) for role in ("dev", "test"))
    held_out = Corpus.from_text(files["test"], vocabulary=model.vocabulary)
    text = with_ends(held_out.ids, held_out.offsets, model.vocabulary.boundary_id)
    lines = [line for line in files["test"].read_text("utf-8").splitlines() if line.strip()]
    n = test.n_tokens / 1e6
    return {
        "data": name,
        "model": NAMES[model.config.smoothing],
        "order": model.order,
        "valid": valid.value,
        "test": test.value,
        "test bits per character": test.bits_per_character,
        "test tokens": test.n_tokens,
        "n-grams": sum(model.table.sizes),
        "read s": read,
        "train s": train,
        "ids M/s": n / least(lambda: model.score_corpus(*text), repeats),
        "lines M/s": n / least(lambda: model.score_batch(lines), repeats),
        "one by one M/s": n / least(lambda: [model.score(line) for line in lines], repeats),
        **beside_kenlm(model, lines, n, repeats),
    }


def beside_kenlm(
    model: KneserNey, lines: list[str], n: float, repeats: int
) -> dict[str, float | None]:
    try:
        import kenlm
    except ImportError:
        return {"kenlm M/s": None, "largest difference": None}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.arpa")
        model.to_arpa(path)
        theirs = kenlm.Model(str(path))
    ours = model.score_batch(lines)
    differences = [abs(theirs.score(line) - x) for line, x in zip(lines, ours, strict=True)]
    seconds = least(lambda: [theirs.score(line) for line in lines], repeats)
    return {"kenlm M/s": n / seconds, "largest difference": max(differences)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    rows = []
    for name in ("ptb", "wikitext-2"):
        for settings in MODELS:
            rows.append(measured(name, settings, options.repeats))
            print({k: rows[-1][k] for k in ("data", "model", "order", "test")}, flush=True)
    reporting.save("lm-ngrams", PROTOCOL, rows)


if __name__ == "__main__":
    main()
