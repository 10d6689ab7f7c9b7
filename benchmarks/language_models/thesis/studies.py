"""The studies: each is a function of a `Study`, named as its option, and writes its own result files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.language_models.contexts import CONTEXTS, EITHER
from benchmarks.language_models.thesis import published, recipes
from benchmarks.language_models.thesis.fits import Fit, Scores, Study, mixed
from benchmarks.language_models.thesis.recipes import (
    EXACT_EPOCHS,
    Flat,
    Hierarchical,
    Machine,
    NGrams,
    Recipe,
    Shape,
)
from benchmarks.language_models.thesis.texts import BINS, PARTS
from benchmarks.reporting import spread

ORDERS = (2, 3, 6)


def described(study: Study) -> list[dict[str, Any]]:
    """Table 4.3."""
    rows = []
    for tree in recipes.TREES:
        facts = study.bench.fit(Hierarchical(tree)).facts
        length, codes, nodes = published.TREES[tree.name]
        rows.append(
            {
                "tree": tree.name,
                "code length": round(facts["tree"]["steps_per_token"], 1),
                "codes": round(facts["codes per token"], 2),
                "nodes": facts["tree"]["n_nodes"],
                "depth": facts["tree"]["depth"],
                "code length APNews": length,
                "codes APNews": codes,
                "nodes APNews": nodes,
            }
        )
    return rows


def mixture_row(
    name: str, fit: Fit, grams: Fit, theirs: tuple[float, ...] | None
) -> dict[str, Any]:
    """A model alone and mixed, beside the figures of the thesis."""
    row: dict[str, Any] = {"model": name, "perplexity": fit.perplexity, **asdict(mixed(fit, grams))}
    return row | dict(zip([f"{k} APNews" for k in list(row)[1:]], theirs or (), strict=False))


def trained(fit: Fit, grams: Fit) -> dict[str, Any]:
    """Figures of a model that was trained in epochs, alone and mixed."""
    return {
        "perplexity": fit.perplexity,
        **asdict(mixed(fit, grams)),
        "validation": min(fit.facts["evaluations"]),
        "epochs": len(fit.facts["evaluations"]),
        "CPU seconds": fit.facts["seconds"],
    }


def trees(study: Study) -> None:
    """Tables 4.3 and 4.4: trees, and the models on them alone and with n-grams."""
    rows = []
    six = study.bench.fit(NGrams(6))
    for tree in recipes.TREES:
        fit = study.bench.fit(Hierarchical(tree))
        rows.append(mixture_row(f"HLBL, {tree.name}", fit, six, published.MODELS[tree.name]))
    if study.plan.longer:
        longer = study.bench.fit(recipes.LONGER)
        rows.append(mixture_row(longer.name, longer, six, None))
    rows.append(mixture_row("LBL", study.bench.fit(Flat()), six, published.MODELS["LBL"]))
    for order in ORDERS:
        grams = study.bench.fit(NGrams(order))
        theirs = published.INTERPOLATED[order]
        rows.append(
            {"model": grams.name, "perplexity": grams.perplexity, "perplexity APNews": theirs}
        )
    study.save(
        "tree-figures",
        {
            "code length": "steps of all codes of a word together, mean over the tokens of the training text",
            "codes": "of a word, mean over tokens; at most four in one subtree",
            "tree": "what one subtree is split by; no code of a subtree is longer than 40 steps",
        },
        described(study),
    )
    told = {
        "mixtures": "with KN6: equal shares; the share of the neural model fitted on the validation text"
    }
    study.save("trees", told, rows, EITHER)


INTERPOLATED, BACKOFF, KATZ = (3, 5, 6, 9), (3, 5, 6, 9), (3, 6)
GRAMS = NGrams(5)


def flat(study: Study) -> None:
    """Tables 3.1 and 3.2: the LBL by context, noise-contrastive and exact, beside n-grams of every kind."""
    bench, plan = study.bench, study.plan
    five = bench.fit(GRAMS)
    rows: list[dict[str, Any]] = []
    models = [Flat(n) for n in plan.flat] + [Flat(n, "softmax", EXACT_EPOCHS) for n in plan.exact]
    for recipe in models:
        name = "LBL by NCE" if recipe.loss == "nce" else "LBL, exact"
        row = {"model": name, "context": recipe.context, **trained(bench.fit(recipe), five)}
        if recipe.context in published.LBL:
            names = ("perplexity", "halves", "fitted", "share")
            theirs = published.LBL[recipe.context]
            row |= {f"{k} APNews": v for k, v in zip(names, theirs, strict=True)}
        rows.append(row)
    grams = [NGrams(n) for n in INTERPOLATED]
    grams += [NGrams(n, "backoff") for n in BACKOFF] + [NGrams(n, "good_turing") for n in KATZ]
    for each in grams:
        row = {"model": each.name, "context": each.order - 1}
        row["perplexity"] = bench.fit(each).perplexity
        if each.smoothing == "backoff":
            row["perplexity APNews"] = published.BACKOFF[each.order]
        rows.append(row)
    told = {
        "mixtures": "with interpolated KN5 (the thesis: the back-off form): equal shares; the share of the LBL "
        "fitted on the validation text",
        "validation": "perplexity of the text that training stops by; of a long one its first 80,000 words",
    }
    study.save("flat", told, rows, EITHER)


def row_of(study: Study, recipe: Machine, context: Any) -> dict[str, Any]:
    """A machine by itself and in mixtures, in one context."""
    row = {"model": recipe.name, "hidden": recipe.hidden, "scored": context}
    row |= trained(study.bench.fit(recipe, context), study.bench.fit(GRAMS))
    name = "temporal FRBM, 2 words" if recipe.temporal else "FRBM, 2 words"
    alone, half = published.TABLE_3_1[name]
    return {**row, "perplexity APNews": alone, "halves APNews": half}


def machines(study: Study) -> None:
    """Table 3.1: restricted Boltzmann machines of words, plain and temporal, alone and with n-grams."""
    rows = [
        row_of(study, recipe, context) for recipe in study.plan.machines for context in CONTEXTS
    ]
    alone = study.bench.fit(GRAMS).perplexity
    rows.append({"model": GRAMS.name, "scored": EITHER, "perplexity": alone})
    told = {
        "mixtures": "with interpolated KN5 (the thesis: back-off KN6): equal shares; the share of the machine fitted "
        "on the validation text, in the context of the row",
        "validation": "perplexity of the validation text as a stream, which training stops by",
        "APNews": "Table 3.1: 10 million words of training text, 1000 hidden units, by contrastive divergence",
    }
    study.save("machines", told, rows)


RATIOS = (("LBL", "KN5"), ("HLBL", "LBL"), ("HLBL", "HLBL random"))
"""Of Tables 3.3 and 3.4, 4.10 and 4.12, 4.11."""


def by_bin(scores: Scores, bins: np.ndarray[Any, np.dtype[np.int64]]) -> list[float]:
    """Perplexity of the tokens of each bin."""
    sums, n = np.bincount(bins, -scores, BINS), np.bincount(bins, minlength=BINS)
    return [round(float(value), 1) for value in np.exp(sums / n)]


def frequency(study: Study) -> None:
    """Tables 3.3, 3.4 and 4.10 to 4.12: perplexity by how frequent the next word is, or the last word before it."""
    texts = study.bench.texts
    copies = max(study.plan.repeats)
    models: dict[str, Recipe] = {
        "LBL": Flat(),
        "KN5": GRAMS,
        "HLBL": Hierarchical(recipes.BEST),
        "HLBL random": Hierarchical(shapes(copies, 1)[0]),
    }
    scores = {name: study.bench.fit(recipe).test for name, recipe in models.items()}
    sizes = np.bincount(texts.bins, minlength=BINS)
    for what, words, theirs in (
        ("next-word", texts.tested, published.NEXT_WORD),
        ("last-word", texts.before, published.LAST_WORD),
    ):
        bins = texts.bins[words]
        found = {name: by_bin(each, bins) for name, each in scores.items()}
        covered = 100 * np.bincount(bins, minlength=BINS) / len(bins)
        rows = []
        for i in range(BINS):
            row: dict[str, Any] = {"bin": i + 1, "types": int(sizes[i])}
            row["% of test"] = round(float(covered[i]), 1)
            row |= {name: found[name][i] for name in models}
            for first, second in RATIOS:
                ratio = found[first][i] / found[second][i]
                row[f"{first} / {second}"] = round(ratio, 2)
                row[f"log {first} / {second}"] = round(float(np.log(ratio)), 2)
                if first in theirs and second in theirs:
                    ratio = theirs[first][i] / theirs[second][i]
                    row[f"{first} / {second} APNews"] = round(ratio, 2)
            row |= {f"{name} APNews": values[i] for name, values in theirs.items()}
            row["types APNews"] = published.BIN_WORDS[i]
            rows.append(row)
        told = {
            "bins": "types by their training frequency, rarest first, each bin about a tenth of the training tokens",
            "what": f"frequency of the {what.replace('-', ' ')}",
            "HLBL": recipes.BEST.name,
            "HLBL random": models["HLBL random"].name,
        }
        study.save(what, told, rows, EITHER)


def shapes(copies: int, repeats: int) -> list[Shape]:
    """Trees of so many subtrees each, no two of them with a subtree in common."""
    return [
        Shape("random", seeds=tuple(range(copies * n, copies * (n + 1)))) for n in range(repeats)
    ]


def random_trees(study: Study) -> None:
    """Table 4.1: HLBL on random trees, also overcomplete ones."""
    rows: list[dict[str, Any]] = []
    for copies, repeats in study.plan.repeats.items():
        trees = shapes(copies, repeats)
        found = [study.bench.fit(Hierarchical(tree)).perplexity for tree in trees]
        rows.append(
            {
                "model": f"HLBL, {trees[0].name}",
                "trees": repeats,
                "perplexity": spread(found),
                "perplexity APNews": published.RANDOM[copies],
            }
        )
    for order in ORDERS:
        grams = study.bench.fit(NGrams(order))
        rows.append(
            {
                "model": grams.name,
                "perplexity": grams.perplexity,
                "perplexity APNews": published.INTERPOLATED[order],
            }
        )
    rows.append(
        {
            "model": "LBL",
            "perplexity": study.bench.fit(Flat()).perplexity,
            "perplexity APNews": published.MODELS["LBL"][0],
        }
    )
    study.save(
        "random-trees", {"trees": "mean and standard deviation over different trees"}, rows, EITHER
    )


def widths(study: Study) -> None:
    """Table 4.2: the number of features, on a random tree and on a clustered one."""
    rows = []
    for width in study.plan.widths:
        random, clustered = (
            study.bench.fit(Hierarchical(tree, width)).perplexity
            for tree in (recipes.RANDOM, recipes.BALANCED)
        )
        theirs = published.WIDTHS[width]
        rows.append(
            {
                "features": width,
                "random tree": random,
                "clustered tree": clustered,
                "reduction": round(random - clustered, 2),
                "random tree APNews": theirs[0],
                "clustered tree APNews": theirs[1],
                "reduction APNews": round(theirs[0] - theirs[1], 1),
            }
        )
    told = {"clustered tree": "BALANCED, by the vectors of the random-tree model with 100 features"}
    study.save("widths", told, rows, EITHER)


WINDOW_ORDERS = (2, 3, 6, 8)


def windows(study: Study) -> None:
    """Table 4.7: the number of context words."""
    tree = study.plan.windows_tree
    six = study.bench.fit(NGrams(6))
    rows = []
    for across, windows in ((False, study.plan.windows), (True, study.plan.across)):
        for n in windows:
            for context in CONTEXTS if across else CONTEXTS[:1]:
                recipe = Hierarchical(tree, context=n, across=across)
                fit = study.bench.fit(recipe, context)
                row = mixture_row("HLBL", fit, six, published.CONTEXTS[n])
                over = "yes" if across else "no"
                about = {"model": "HLBL", "context": n, "over sentence ends": over}
                rows.append({**about, "scored": context if across else EITHER, **row})
    for order in WINDOW_ORDERS:
        grams = study.bench.fit(NGrams(order))
        row: dict[str, Any] = {
            "model": grams.name,
            "context": order - 1,
            "over sentence ends": "no",
        }
        row["scored"] = EITHER
        theirs = published.INTERPOLATED[order]
        rows.append({**row, "perplexity": grams.perplexity, "perplexity APNews": theirs})
    told = {
        "tree": f"{tree.name}; APNews: ADAPTIVE(0.4) x 4",
        "over sentence ends": "whether the context goes on over them in training, as it does in the thesis",
        "mixtures": "with KN6",
    }
    study.save("windows", told, rows)


RULES = (
    Shape("adaptive", recipes.OVERLAP),
    Shape("random"),
    Shape("noisy", recipes.OVERLAP),
)


def diversity(study: Study) -> None:
    """Table 4.6: overcomplete trees of equal subtrees, and of different ones."""
    copies, replicas = study.plan.copies, study.plan.replicas
    trees: dict[str, tuple[int, ...]] = {
        f"S{n + 1} x {copies}": (n,) * copies for n in range(replicas)
    }
    trees[" + ".join(f"S{n + 1}" for n in range(copies))] = tuple(range(copies))
    rows = []
    for number, (name, seeds) in enumerate(trees.items()):
        row: dict[str, Any] = {"tree": name}
        for rule in RULES:
            tree = Shape(rule.rule, rule.overlap, seeds)
            row[rule.name] = study.bench.fit(Hierarchical(tree)).perplexity
        for rule in RULES:
            equal, different = published.DIVERSITY[rule.name]
            row[f"{rule.name} APNews"] = equal[number] if number < replicas else different
        rows.append(row)
    study.save("diversity", {"APNews": "four subtrees in every tree"}, rows, EITHER)


ORDER = 6
_Doubles = npt.NDArray[np.float64]


def averaged(scores: _Doubles) -> _Doubles:
    """Log of the mean probability; ``scores`` (models, tokens)."""
    return np.asarray(np.logaddexp.reduce(scores, axis=0) - np.log(len(scores)))


def bias_variance(scores: _Doubles) -> tuple[float, float]:
    """Eqs 4.9 and 4.10, nats a word."""
    mean = averaged(scores)
    return float(-mean.mean()), float((mean - scores.mean(axis=0)).mean())


def variance(study: Study) -> None:
    """Tables 4.8 and 4.9: models that lack an eighth of the training text each; bias and variance (section 4.6.6)."""
    tree = study.plan.eighths_tree
    makers: dict[str, Callable[[int], Recipe]] = {
        "HLBL": lambda part: Hierarchical(tree, without=part),
        f"KN{ORDER}": lambda part: NGrams(ORDER, without=part),
    }
    scores = {
        name: np.stack([study.bench.fit(make(part)).test for part in range(PARTS)])
        for name, make in makers.items()
    }
    told = {
        "tree": f"{tree.name}, of the whole training text, for all eight; APNews: ADAPTIVE(0.4) x 4",
        "unit": "nats a word, eqs 4.9 and 4.10",
    }
    parts = []
    for name, found in scores.items():
        bias, variance = bias_variance(found)
        of_thesis = published.BIAS_VARIANCE[name]
        parts.append(
            {
                "model": name,
                "bias": round(bias, 3),
                "variance": round(variance, 3),
                "bias APNews": of_thesis[0],
                "variance APNews": of_thesis[1],
            }
        )
    study.save("bias-variance", told, parts)
