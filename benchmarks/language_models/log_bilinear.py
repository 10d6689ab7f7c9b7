"""Log-bilinear models on Penn Treebank: perplexity alone and with n-grams, speed of training, trees and scoring.

    python -m benchmarks.language_models.log_bilinear [--only quality | speed] [--repeats 7] [--cache DIR] [--fresh]

Penn Treebank (Mikolov's split) from TACENDA_DATA or the cache. The fitted default model is kept in the cache
folder, and
quality and speed are those of this one artefact. Rows that are not measured stay as they were. Set
OMP_NUM_THREADS=1: one thread, where a row does not say otherwise.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import tacenda
from benchmarks import reporting
from benchmarks.language_models.ngrams import beside_kenlm
from tacenda import Corpus, datasets
from tacenda_lm import HLBL, KneserNey, Mixture, build_tree
from tacenda_lm.log_bilinear.hlbl import HLBLTrainer
from tacenda_lm.log_bilinear.hlbl_predictor import HLBLPredictor, Parameters
from tacenda_lm.log_bilinear.lbl import LBLTrainer
from tacenda_lm.log_bilinear.model import Stream
from tacenda_lm.log_bilinear.settings import HLBLAdvanced, LBLAdvanced, LBLSettings
from tacenda_lm.sequences import with_ends

PROTOCOL = {
    "text": "a line is a sentence; <unk> is an ordinary word; </s> is predicted, <s> is not; closed vocabulary",
    "stream": "the text scored as one sequence, every sentence in the context of all before it",
    "choices": "settings were chosen by the perplexity of the validation text; the test text was scored after that",
    "mixture": "linear, its weights fitted by EM on the validation text, scored as a stream",
    "rounding": "perplexity, stream, in float32 as the model was trained, and in 8 bits (eight_bits), which also "
    "rounds predicted vectors to 16 bits; the largest difference of a token of the test text",
    "per CPU second, per second": "units by the processor's time and by the clock, medians of the repetitions (7; of "
    "scoring 35), compiled code warm; a machine shared with others, so the best repetition is given too",
    "cores had": "processor's time over the clock's: about 1 with two threads means that the other core was not free",
    "training tokens": "steps on random pieces of the training text, evaluation left out",
    "times LBL": "tokens a CPU second of the default HLBL's training, one thread, over those of the LBL",
    "sgemm GFLOP/s": "the product of the LBL's predicted vectors with its output vectors, alone, as often as a step",
    "tree": "adaptive, one copy, 18,000 vectors of 100 elements drawn around 500 centres, Zipf weights",
    "scoring": "the test text: ids (score_corpus, one stream), a list of lines (score_batch), line by line (score)",
    "kenlm": "kenlm.Model.score(line) for every line with our KneserNey(5), where the module is installed",
}


def seconds(call: Callable[[], Any], repeats: int, clock: Callable[[], float]) -> float:
    call()
    found = []
    for _ in range(repeats):
        start = clock()
        call()
        found.append(clock() - start)
    return statistics.median(found)


def rates(call: Callable[[], Any], n: float, repeats: int) -> dict[str, float]:
    """Units a second of the processor, and by the clock."""
    call()
    cpu, wall = [], []
    for _ in range(repeats):
        start, began = time.process_time(), time.perf_counter()
        call()
        cpu.append(time.process_time() - start)
        wall.append(time.perf_counter() - began)
    return {
        "per CPU second": n / statistics.median(cpu),
        "best per CPU second": n / min(cpu),
        "per second": n / statistics.median(wall),
        "cores had": sum(cpu) / sum(wall),
    }


def fitted(cache: Path, fresh: bool, train: Corpus, valid: Corpus) -> tuple[HLBL, dict[str, Any]]:
    """The default model, from the cache if it is there, and what was seen of its fit."""
    settings = json.dumps(HLBL().settings.to_dict(), sort_keys=True)
    folder = cache / f"hlbl-ptb-{hashlib.sha256(settings.encode()).hexdigest()[:12]}"
    if fresh or not (folder / "fit.json").exists():
        start = time.process_time()
        model = HLBL().fit(train, valid)
        seen = {"CPU seconds": time.process_time() - start}
        folder.mkdir(parents=True, exist_ok=True)
        model.save(folder / "model")
        (folder / "fit.json").write_text(json.dumps(seen), encoding="utf-8")
    seen = json.loads((folder / "fit.json").read_text(encoding="utf-8"))
    return tacenda.load(folder / "model"), seen


def training_rate(model: HLBL, corpus: Corpus, threads: int, repeats: int, steps: int = 40) -> Any:
    settings, counts = replace(model.settings, threads=threads), corpus.type_counts
    tree, rng = model.tree, np.random.default_rng(0)
    parameters = Parameters.drawn(settings, len(counts), tree.biases(counts), rng)
    trainer = HLBLTrainer(settings, parameters, tree, Stream.of_corpus(corpus, True), None)
    size = settings.advanced.batch_pieces
    starts = rng.permutation(trainer.begins)[: steps * size]

    def work() -> None:
        for part in np.split(starts, steps):
            trainer.step((part,), 0.1)

    return rates(work, steps * size * settings.advanced.piece_words, repeats)


def lbl_rate(
    corpus: Corpus, width: int, context: int, repeats: int, steps: int = 3
) -> dict[str, Any]:
    size = 512
    advanced = LBLAdvanced(context_matrices="diagonal")
    settings = LBLSettings(width=width, context=context, batch_words=size, advanced=advanced)
    text = Stream.of_corpus(corpus, True)
    trainer = LBLTrainer(settings, corpus.type_counts, text, None)
    positions = np.random.default_rng(0).integers(1, corpus.n_tokens, (steps, size))
    tokens = steps * size

    def work() -> None:
        for batch in positions:
            trainer.step((batch,), 0.1)

    r = np.random.default_rng(0).standard_normal((size, width), np.float32)
    q = trainer.current.outputs
    flops = 2.0 * size * width * len(q)
    found = rates(work, tokens, repeats)
    gemm = flops / seconds(lambda: r @ q.T, repeats, time.process_time) / 1e9
    return {
        **found,
        "GFLOP/s": 3 * flops / size * found["per CPU second"] / 1e9,
        "sgemm GFLOP/s": gemm,
    }


def tree_seconds(repeats: int, words: int = 18_000, width: int = 100) -> float:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((500, width))
    vectors = centres[rng.integers(0, 500, words)] + 0.7 * rng.standard_normal((words, width))
    weights = (1 / np.sqrt(np.arange(1, words + 1))).astype(np.float32)
    return seconds(
        lambda: build_tree("adaptive", words, vectors=vectors, weights=weights),
        repeats,
        time.process_time,
    )


def quality(
    hlbl: HLBL, seen: dict[str, Any], train: Corpus, valid: Corpus, test: Corpus
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{"what": "HLBL, whole fit", "CPU seconds": seen["CPU seconds"]}]
    ngrams = KneserNey(order=5).fit(train)
    mixture = Mixture({"hlbl": hlbl, "kneser_ney": ngrams}).fit_weights(valid)
    for name, model in (("HLBL", hlbl), ("KneserNey(5)", ngrams), ("HLBL + KneserNey(5)", mixture)):
        for context in ("stream", "sentence"):
            found = {
                k: model.perplexity(t, context=context).value
                for k, t in (("valid", valid), ("test", test))
            }
            rows.append({"what": f"perplexity, {name}, {context}", "part": "perplexity", **found})
    stream, rates = Stream.of_corpus(test, True), hlbl.settings.advanced.tail_rates
    models = [
        HLBLPredictor(
            replace(hlbl.parameters), hlbl.tree, rates, test.vocabulary.boundary_id, eight_bits
        )
        for eight_bits in (False, True)
    ]
    exact, rounded = (model.score(stream) for model in models)
    rows.append(
        {
            "what": "HLBL, rounding",
            "test, as trained": float(np.exp(-exact.mean())),
            "test": float(np.exp(-rounded.mean())),
            "largest difference of a token": float(np.abs(rounded - exact).max()),
        }
    )
    rows.append({"what": "mixture", "weights": mixture.weights})
    settings = {"settings": hlbl.settings.to_dict(), **hlbl.fitted_on["tree"]}
    return [*rows, {"what": "HLBL", **settings}]


def scoring(hlbl: HLBL, train: Corpus, test: Corpus, lines: list[str], repeats: int) -> Any:
    ids, _ = with_ends(test.ids, test.offsets, test.vocabulary.boundary_id)
    n, whole = len(ids), np.array([0, len(ids)])
    for name, call in (
        ("ids", lambda: hlbl.score_corpus(ids, whole)),
        ("list of lines", lambda: hlbl.score_batch(lines)),
        ("line by line", lambda: [hlbl.score(line) for line in lines]),
    ):
        yield {"what": f"HLBL scoring, tokens, {name}", **rates(call, n, 5 * repeats)}
    x = np.random.default_rng(0).standard_normal((1024, 1024), np.float32)
    gemm = 2 * 1024**3 / seconds(lambda: x @ x, 3 * repeats, time.process_time) / 1e9
    yield {"what": "beside it: sgemm, 1024 x 1024 x 1024", "sgemm GFLOP/s": gemm}
    found = beside_kenlm(KneserNey(order=5).fit(train), lines, n / 1e6, repeats)
    yield {"what": "beside it: kenlm, tokens, line by line, KneserNey(5)", **found}


def training(hlbl: HLBL, train: Corpus, repeats: int) -> Any:
    plain = HLBL(
        width=100,
        context=5,
        copies=1,
        dropout=0.0,
        epochs=0,
        advanced=HLBLAdvanced(tail_rates=(), bootstrap_epochs=1, frequency_power=0.0),
    ).fit(train)
    ours = {}
    for name, model in (("default", hlbl), ("the thesis's: 100 features, 5 words", plain)):
        for threads in (1, 2):
            found = training_rate(model, train, threads, repeats)
            ours[name, threads] = found["per CPU second"]
            yield {"what": f"HLBL training, tokens, {name}, {threads} threads", **found}
    for width, context in ((100, 5), (hlbl.settings.width, hlbl.settings.context)):
        found = lbl_rate(train, width, context, min(repeats, 5))
        yield {
            "what": f"LBL training, tokens, exact softmax, {width} features, {context} words",
            **found,
            "times LBL": ours["default", 1] / found["per CPU second"],
        }


def main() -> None:
    user_cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "tacenda-bench"
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=("quality", "speed"))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--fresh", action="store_true", help="fit again, though a model is there")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(os.environ.get("TACENDA_BENCH_CACHE", user_cache)),
        help="where the fitted model is kept (default: TACENDA_BENCH_CACHE)",
    )
    options = parser.parse_args()
    files = datasets.locate("ptb")
    train = Corpus.from_text(files["train"])
    valid, test = (Corpus.from_text(files[k], vocabulary=train.vocabulary) for k in ("dev", "test"))
    lines = [line for line in files["test"].read_text("utf-8").splitlines() if line.strip()]
    hlbl, seen = fitted(options.cache, options.fresh, train, valid)
    rows: list[dict[str, Any]] = []
    if options.only != "speed":
        rows += quality(hlbl, seen, train, valid, test)
    if options.only != "quality":
        parts = {
            "scoring": scoring(hlbl, train, test, lines, options.repeats),
            "training": training(hlbl, train, options.repeats),
        }
        for part, found in parts.items():
            for row in found:
                rows.append({**row, "part": part})
                print(rows[-1], flush=True)
        rows.append(
            {"what": "tree over 18,000 words", "CPU seconds": tree_seconds(min(options.repeats, 3))}
        )
    reporting.save("lm-log-bilinear", PROTOCOL, rows, keep="what")


if __name__ == "__main__":
    main()
