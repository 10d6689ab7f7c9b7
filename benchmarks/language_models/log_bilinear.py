"""Log-bilinear models on Penn Treebank: perplexity alone and with n-grams, speed of training, trees and scoring.

    python -m benchmarks.language_models.log_bilinear [--threads 1] [--repeats 5]

Penn Treebank (Mikolov's split) from TACIT_DATA or the cache. Times are of the processor, compiled code warm, so that a
busy machine counts less; a second figure by the clock where threads are used.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import reporting
from tacit import Corpus, datasets
from tacit_lm import HLBL, KneserNey, Mixture, build_tree
from tacit_lm.log_bilinear.config import LBLConfig
from tacit_lm.log_bilinear.fitting import text_stream
from tacit_lm.log_bilinear.lbl_training import LBLTrainer, drawn
from tacit_lm.log_bilinear.parameters import Parameters
from tacit_lm.log_bilinear.training import Trainer, pieces
from tacit_lm.sequences import with_ends

PROTOCOL = {
    "text": "a line is a sentence; <unk> is an ordinary word; </s> is predicted, <s> is not; closed vocabulary",
    "stream": "the text scored as one sequence, every sentence in the context of all before it",
    "choices": "settings were chosen by the perplexity of the validation text; the test text was scored after that",
    "mixture": "linear, its weights fitted by EM on the validation text, scored as a stream",
    "training tokens/s": "steps on random pieces of the training text, evaluation left out",
    "sgemm GFLOP/s": "the product of the LBL's predicted vectors with its output vectors, alone, as often as a step",
    "tree": "adaptive, one copy, 18,000 vectors of 100 elements drawn around 500 centres, Zipf weights",
    "scoring": "score_corpus of the test text, ids given, one thread",
}


def seconds(call: Callable[[], Any], repeats: int, clock: Callable[[], float]) -> float:
    call()
    found = []
    for _ in range(repeats):
        start = clock()
        call()
        found.append(clock() - start)
    return min(found)


def rates(call: Callable[[], Any], n: float, repeats: int) -> dict[str, float]:
    """Units a second of the processor, and by the clock."""
    return {
        "per CPU second": n / seconds(call, repeats, time.process_time),
        "per second": n / seconds(call, repeats, time.perf_counter),
    }


def training_rate(model: HLBL, corpus: Corpus, threads: int, repeats: int, steps: int = 40) -> Any:
    config, counts = model.config, corpus.type_counts
    tree = model.tree
    text = text_stream(corpus, True)
    rng = np.random.default_rng(0)
    parameters = Parameters.drawn(
        len(counts), config.width, config.context, config.tail_rates, tree.biases(counts), rng
    )
    trainer = Trainer(
        parameters, tree.codes, config.tail_rates, text, None, length=config.piece,
        dropout=config.dropout, seed=0, threads=threads,
    )  # fmt: skip
    starts = rng.permutation(pieces(text, config.piece))[: steps * config.batch]

    def work() -> None:
        for part in np.split(starts, steps):
            trainer.step((part,), 0.1)

    return rates(work, steps * config.batch * config.piece, repeats)


def lbl_rate(corpus: Corpus, width: int, repeats: int, steps: int = 3) -> dict[str, Any]:
    config = LBLConfig(width=width, context=5, batch=512)
    counts = corpus.type_counts
    parameters = drawn(config, counts, np.random.default_rng(0))
    trainer = LBLTrainer(config, parameters, counts, text_stream(corpus, True), None)
    positions = np.random.default_rng(0).integers(1, corpus.n_tokens, (steps, config.batch))
    tokens = steps * config.batch

    def work() -> None:
        for batch in positions:
            trainer.step((batch,), 0.1)

    r = np.random.default_rng(0).standard_normal((config.batch, width), np.float32)
    q = parameters.outputs
    flops = 2.0 * config.batch * width * len(q)
    found = rates(work, tokens, repeats)
    gemm = flops / seconds(lambda: r @ q.T, 5 * repeats, time.process_time) / 1e9
    return {
        **found,
        "GFLOP/s": 3 * flops / config.batch * found["per CPU second"] / 1e9,
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    files = datasets.locate("ptb")
    train = Corpus.from_text(files["train"])
    valid, test = (Corpus.from_text(files[k], vocabulary=train.vocabulary) for k in ("dev", "test"))
    rows: list[dict[str, Any]] = []

    start = time.process_time()
    hlbl = HLBL(threads=options.threads).fit(train, valid)
    rows.append({"what": "HLBL, whole fit", "CPU seconds": time.process_time() - start})
    ngrams = KneserNey(order=5).fit(train)
    mixture = Mixture({"hlbl": hlbl, "kneser_ney": ngrams}).fit_weights(valid)
    for name, model in (("HLBL", hlbl), ("KneserNey(5)", ngrams), ("HLBL + KneserNey(5)", mixture)):
        for context in ("stream", "sentence"):
            found = {
                k: model.perplexity(t, context=context).value
                for k, t in (("valid", valid), ("test", test))
            }
            rows.append({"what": f"perplexity, {name}", "context": context, **found})
            print(rows[-1], flush=True)
    rows.append({"what": "mixture", "weights": mixture.weights})
    rows.append({"what": "HLBL", "settings": hlbl.config.to_dict(), **hlbl.fitted_on["tree"]})
    text = with_ends(test.ids, test.offsets, test.vocabulary.boundary_id)
    scoring = rates(lambda: hlbl.score_corpus(*text), len(text[0]), options.repeats)
    rows.append({"what": "HLBL scoring, tokens", **scoring})
    plain = HLBL(
        width=100, context=5, tail_rates=(), copies=1, dropout=0.0, epochs=0, bootstrap_epochs=1,
        frequency_power=0.0,
    ).fit(train)  # fmt: skip
    for name, model in (("default", hlbl), ("the thesis's: 100 features, 5 words", plain)):
        for threads in sorted({1, options.threads}):
            found = training_rate(model, train, threads, options.repeats)
            rows.append({"what": f"HLBL training, tokens, {name}", "threads": threads, **found})
            print(rows[-1], flush=True)
    rows.append(
        {
            "what": "LBL training, tokens, exact softmax, 100 features, 5 words",
            **lbl_rate(train, 100, options.repeats),
        }
    )
    rows.append({"what": "tree over 18,000 words", "CPU seconds": tree_seconds(options.repeats)})
    for row in rows[-2:]:
        print(row, flush=True)
    reporting.save("lm-log-bilinear", PROTOCOL, rows)


if __name__ == "__main__":
    main()
