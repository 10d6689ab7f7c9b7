"""Measures cheap rows of the results on our pages again and compares them: python -m benchmarks.check_figures.

    python -m benchmarks.check_figures            # some of every page: 20 minutes on two cores
    python -m benchmarks.check_figures --quick    # what takes seconds; continuous integration runs it
    python -m benchmarks.check_figures --only lm-mixtures    # any table, also one whose cheapest row takes long
    python -m benchmarks.check_figures --timed    # speeds and memory, on a quiet machine: 20 minutes
    python -m benchmarks.check_figures --record   # note in results/repeated.json what was measured again, for the pages

Each check is a command of the benchmark that made a table, for some of its rows, and compares what it measures with
the rows of the results file. Needs TACENDA_DATA; some checks also need the libraries that `make bench` installs. It
compares speeds as multiples of the speed of another program in the same run, by the median of the ratios.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from scipy import stats

from benchmarks import freshness, kept, reporting

# Relative: sums in another order change what training by gradients ends in by so much.
TOLERANCE = 4e-3
NEAR = 0.2  # what the median ratio of speeds, or of memory, may differ from 1 by
CONFIDENCE = 0.99  # of the interval for one more seed, where one is measured and the page has the mean of several


class Check(NamedTuple):
    """Rows of a results file that one command measures again.

    ``same`` names the columns that tell rows apart, ``columns`` those that are compared.
    """

    result: str
    command: str
    columns: str  # with commas
    same: str = "what"
    quick: bool = False
    long: bool = False  # its page has a cheaper one; measured only where --only names the result
    timed: bool = False  # the columns have ratios of speeds, or memory: `NEAR`


_LM, _HIDDEN = "language_models", "language_models.hidden_markov --tables lm-hidden-markov"
_THESIS = f"{_LM}.thesis --only"
# Two checks run at once: those that fit the same vectors stand apart, so that the second finds them kept.
CHECKS = (
    Check("lm-ngrams", f'{_LM}.ngrams --data ptb --only "ptb, modified Kneser-Ney, 5"', "n-grams,valid,test",
          "data,model,order", True),
    Check("ratings-uncertainty", "ratings.uncertainty --sets ml-100k --only bias",
          "within 1,within 2,off,log-likelihood", "row", True),
    Check("ratings-ml-100k", "ratings.accuracy --data ml-100k --only ConditionalPMF", "RMSE,MAE", "algorithm", True),
    Check("ratings-lists", "ratings.lists --data ml-100k --only ImplicitMF", "HR,NDCG,MRR,recall", "row", True),
    Check("lm-log-bilinear", f'{_LM}.log_bilinear --only HLBL', "valid,test", "part,model,context"),
    Check("lm-caches", f'{_LM}.caches --only "KneserNey(5) + UnigramCache"', "valid,test", "model,context"),
    Check("lm-unknown", f"{_LM}.unknown", "unknown,rare,all,bits per character,perplexity", "part,way,words kept"),
    Check("lm-scale", f"{_LM}.scale --only kneser_ney", "tokens,types,on disk GB,dev,test"),
    Check("lm-ngrams-files", f'{_LM}.ngrams_size --tables lm-ngrams-files --only "pruned 1e-07"',
          "n-grams,dev,test"),
    Check("lm-ngrams-training", f"{_LM}.ngrams_size --tables lm-ngrams-training --millions 0 --budgets 0",
          "tokens,n-grams"),
    Check("lm-reading", f'{_LM}.reading --only "KneserNey(5), novels"', "gain,left out,bits"),
    Check("lm-budgets", f"{_LM}.budgets --budget minute --text ptb", "valid,test"),
    Check("lm-recurrent", f"{_LM}.recurrent --runs averaged --starts random --only start",
          "valid"),
    Check("lm-state-space", f"{_LM}.state_space --studies sparse", "development,test,gradients,Kneser-Ney", "row"),
    Check("lm-hidden-markov", f"{_HIDDEN} --only quick", "train,valid,test"),
    Check("lm-hidden-markov-studies", f'{_HIDDEN}-studies --only "2^10 states"', "train,valid,test"),
    Check("lm-hidden-markov-mixtures", f'{_HIDDEN}-mixtures --only "KneserNey(5)"', "train,valid,test"),
    Check("lm-hidden-markov-wikitext-2", f'{_HIDDEN}-wikitext-2 --only "KneserNey(5)"', "train,valid,test"),
    Check("lm-thesis-flat-ptb", f'{_THESIS} flat --data ptb --models "LBL by NCE, 2" KN3 "back-off GT3"',
          "perplexity,fitted", "model,context"),
    Check("lm-thesis-trees-ptb", f'{_THESIS} trees --data ptb --models "HLBL, RANDOM" KN2', "perplexity,fitted",
          "model"),
    Check("lm-thesis-machines-ptb", f"{_THESIS} machines --data ptb --models KN5", "perplexity", "model,scored"),
    Check("lm-thesis-machines-wikitext-2", f"{_THESIS} machines --data wikitext-2 --models KN5", "perplexity",
          "model,scored"),
    Check("varembed-intrinsic-1.5", "varembed.intrinsic --tokens 1.5 --only VarEmbed --seeds 0",
          "RW all,RW in vocabulary,WS353 all,QVEC-CCA", "row"),
    Check("embeddings-local", 'embeddings.local --tasks ewt-upos --sizes 250 --seeds 0 --only "LDS own"', "test 250",
          "task,row"),
    Check("embeddings-spacy", 'embeddings.spacy_rows --sizes 250 --seeds 0 --only recommended',
          "test 250", long=True),
    Check("embeddings-unseen", "embeddings.unseen --tasks treebank-drawn --sizes 250 --seeds 0 --only recommended",
          "test 250"),
    Check("embeddings-languages", 'embeddings.languages --tables embeddings-languages --tasks german --seeds 0 '
          '--only "SumEmbed, CNN4"', "test 250", "task,row", long=True),
    Check("embeddings-lexicalized", 'embeddings.lexicalized --c2 0.3 --only "Lex + LDS mean"', "dev,test", "row",
          long=True),
    Check("embeddings-multiword", "embeddings.multiword --tasks french --sizes 250 --seeds 0 --only merged",
          "test multiword 250,test all 250"),
    Check("embeddings-universal-tags", 'embeddings.universal_tags --tasks polish --only "with features"',
          "test accuracy 250", long=True),
    Check("embeddings-text-classes",
          'embeddings.text_classes --tables embeddings-text-classes --tasks tweets --only "bag of words"', "test 250"),
    Check("embeddings-text-classes-1000", 'embeddings.text_classes --tables embeddings-text-classes-1000 '
          '--tasks tweets --seeds 0 --only "bag of words" init-config', "test 1000"),
    Check("embeddings-peers", 'embeddings.peers --tables embeddings-peers --tasks ewt-upos --sizes 250 --seeds 0 '
          '--only "LDS own_context, CNN1"',
          "test 250", long=True),
    Check("embeddings-peers-more", 'embeddings.peers --tables embeddings-peers-more --tasks wnut17 --sizes 250 '
          '--seeds 0 --only "hash + SumEmbed, CNN4"', "test 250", long=True),
    Check("embeddings-raw-text", "embeddings.raw_text --millions 1 --only recommended", "dev,test", "tokens,row",
          long=True),
    Check("varembed-sum-embed", "varembed.sum_embed --tokens 1.5 --seeds 0", "RW all,WS353 all,QVEC-CCA,tags"),
    Check("embeddings-languages-1000", 'embeddings.languages --tables embeddings-languages-1000 --tasks german '
          '--seeds 2 --only recommended', "test 1000,tokens", "task,row"),
    Check("ratings-newcomers", "ratings.newcomers --only BiasOnly PMF", "all,unknown users,folded in", "model"),
    Check("ratings-lists-more", "ratings.lists --data ml-100k-likes --only ImplicitMF", "HR,NDCG,MRR,recall", "row"),
    Check("ratings-ml-1m", "ratings.accuracy --data ml-1m --only ConditionalPMF", "RMSE,MAE", "algorithm"),
    Check("scale-slopes", "scale.slopes --only KneserNey", "bytes,model grows with"),
    Check("scale-cluster", "scale.cluster --tokens 50e6 --workers 2", "text_bytes,pairs,5-grams"),
    Check("varembed-intrinsic", "varembed.intrinsic --only VarEmbed --seeds 0",
          "WS353 in vocabulary,RW all,RW in vocabulary,QVEC,QVEC-CCA", "row", long=True),
    Check("varembed-tagging", "varembed.tagging --tasks treebank-xpos --only VarEmbed --seeds 0", "test", "task,row",
          long=True),
    Check("lm-mixtures", f'{_LM}.mixtures --tables lm-mixtures --only "KneserNey(5) + HLBL"', "valid,test", long=True),
    Check("lm-mixtures-apart", f'{_LM}.mixtures --tables lm-mixtures-apart --only "HLBL, trained apart"', "valid,test",
          long=True),
    Check("embeddings-whole", "embeddings.whole --seeds 0 --only recommended",
          "test tags 1000,test LAS 1000,test F 1000", long=True),
    Check("lm-ngrams-arpa", f"{_LM}.ngrams_size --tables lm-ngrams-arpa", "of lmplz", timed=True),
    Check("lm-ngrams-speed", f"{_LM}.ngrams_speed --orders 5 --data ptb", "times kenlm",
          "data,order,scorer,given", timed=True),
    Check("embeddings-fit", "embeddings.fit --repeats 1", "times faster than word2vec", "row", timed=True),
    Check("embeddings-pipeline-speed", "embeddings.pipeline_speed --repeats 1 --only default recommended",
          "times default", "pipeline,text,input,batch,pass,row", timed=True),
    Check("embeddings-languages-speed", "embeddings.languages --tables embeddings-languages-speed --tasks german",
          "times default", timed=True),
    Check("embeddings-peers-speed", "embeddings.peers_speed --only default recommended", "times default", "row",
          timed=True),
    Check("ratings-scale", "ratings.scale", "times SVD,peak GB", "model", timed=True),
    Check("scale-memory", "scale.memory --only VarEmbed", "anonymous MB,anonymous MB 10x,resident MB", timed=True),
    Check("robustness", "robustness --only bombs", "tried,refused,right,told,another model,wrong,broken"),
)  # fmt: skip


def named(check: Check, row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what tells a row from others."""
    return tuple(row.get(each) for each in check.same.split(","))


def differ(found: Any, stated: Any) -> bool:
    """Return whether a figure differs from the stated one by more than rounding; of one seed, by more than seeds do."""
    if isinstance(stated, dict):
        few = found["n"] < stated["n"]
        allowed = _interval(**stated) if few else TOLERANCE * abs(stated["mean"])
        return bool(abs(found["mean"] - stated["mean"]) > allowed)
    if isinstance(stated, int | float) and isinstance(found, int | float):
        return not math.isclose(found, stated, rel_tol=TOLERANCE)
    return bool(found != stated)


def _interval(mean: float, sd: float, n: int) -> float:
    """Return how far one more seed may be from the mean of ``n``: half of the interval that Student's t gives."""
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1))
    return quantile * max(sd, 0.1) * math.sqrt(1 + 1 / n)


def median_ratio(
    check: Check, rows: list[dict[str, Any]], stated: list[dict[str, Any]]
) -> float | None:
    """Return the median of the ratios of all figures to those of the page, of a timed check; None if there are none."""
    if not check.timed:
        return None
    known = {named(check, row): row for row in stated}
    pairs = [
        (_number(row.get(column)), _number(known.get(named(check, row), {}).get(column)))
        for row in rows
        for column in check.columns.split(",")
    ]
    found = [own / theirs for own, theirs in pairs if own and theirs and own != theirs]
    return round(statistics.median(found), 3) if found else None


def _number(value: Any) -> float | None:
    """Return a figure, of repeated ones the median."""
    return value["median"] if isinstance(value, dict) else value


def differences(
    check: Check, rows: list[dict[str, Any]], stated: list[dict[str, Any]]
) -> list[str]:
    """Return a line for each figure that differs from the page, or has no row there; of a timed check, one line."""
    if check.timed:
        ratio = median_ratio(check, rows, stated)
        if ratio is None:
            return ["no row was measured"]
        return [] if abs(ratio - 1) <= NEAR else [f"its figures are {ratio} times the page's"]
    known = {named(check, row): row for row in stated}
    found = []
    for row in rows:
        name = named(check, row)
        if name not in known:
            found.append(f"{name} is not among the rows")
            continue
        columns = [each for each in check.columns.split(",") if known[name].get(each) is not None]
        for column in columns:
            own, theirs = row.get(column), known[name][column]
            if differ(own, theirs):
                found.append(f"{name}: {column} is {own}, the page has {theirs}")
        if not columns:
            found.append(f"{name} has none of {check.columns}")
    return found if rows else ["no row was measured"]


def run(check: Check) -> tuple[list[str], dict[str, Any]]:
    """Measure, print and return what differs, with a record of what was measured."""
    start, rows, ratio = time.monotonic(), [], None
    with tempfile.TemporaryDirectory() as folder:
        module, *arguments = shlex.split(check.command)
        command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{module}", *arguments]
        done = subprocess.run(
            [*command, "--rows-to", f"{folder}/rows"], cwd=freshness.ROOT, capture_output=True, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TACENDA_PROGRESS": "0"},
        )  # fmt: skip
        file = Path(folder, f"rows.{check.result}.json")
        if done.returncode or not file.exists():
            last = (done.stderr.strip() or "it wrote no rows").splitlines()[-1]
            found = [f"it ended with {done.returncode}: {last}"]
        else:
            stated, rows = reporting.stored(check.result)["rows"], kept.read_json(file)
            found, ratio = differences(check, rows, stated), median_ratio(check, rows, stated)
    print(f"{check.result}: {check.command}: {time.monotonic() - start:.0f} s", flush=True)
    if ratio is not None:
        print(f"    {ratio} times the page's (median)", flush=True)
    for line in found:
        print(f"    {line}", flush=True)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    about = {each: reporting.STARTED[each] for each in ("commit", "modified")}
    return found, {
        "date": date,
        **about,
        "rows": [named(check, row) for row in rows],
        "columns": check.columns.split(","),
        "same": not found,
        **({} if ratio is None else {"median ratio": ratio}),
    }


def is_wanted(check: Check, options: argparse.Namespace) -> bool:
    if options.only:
        return any(each in check.result for each in options.only)
    return check.timed == options.timed and not check.long and (check.quick or not options.quick)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="only what takes seconds")
    parser.add_argument("--timed", action="store_true", help="only speeds and memory")
    parser.add_argument("--record", action="store_true", help="note what was measured again")
    parser.add_argument("--processes", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument(
        "--only", nargs="*", default=[], help="results with one of these in the name, long ones too"
    )
    options = parser.parse_args()
    if not os.environ.get("TACENDA_DATA"):
        print("The figures are not checked: TACENDA_DATA names no folder with the evaluation data.")
        return
    wanted = [check for check in CHECKS if is_wanted(check, options)]
    wrong = 0
    alone = any(check.timed for check in wanted)  # so that no check disturbs another
    with ThreadPoolExecutor(1 if alone else options.processes) as pool:
        for check, (lines, record) in zip(wanted, pool.map(run, wanted), strict=True):
            wrong += bool(lines)
            if options.record and record["rows"]:
                known = {**(reporting.stored("repeated") or {}), check.result: record}
                kept.write_json(reporting.RESULTS / "repeated.json", dict(sorted(known.items())))
    if wrong:
        raise SystemExit(
            f"{wrong} of {len(wanted)} checks found figures that differ from their pages."
        )
    print(f"{len(wanted)} checks: every figure is as its page has it.")


if __name__ == "__main__":
    main()
