"""The studies: each is a function of a `Study`, named as its option, and writes its own result files."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import reporting
from benchmarks.language_models.contexts import CONTEXTS, EITHER
from benchmarks.language_models.thesis import published, recipes
from benchmarks.language_models.thesis.fits import Fit, Scores, Study, mixed, perplexity, trainer_on
from benchmarks.language_models.thesis.recipes import (
    CONTEXT,
    EXACT_EPOCHS,
    Flat,
    Hierarchical,
    Machine,
    NGrams,
    Recipe,
    Shape,
)
from benchmarks.language_models.thesis.texts import BINS, PARTS, Texts, tokens
from benchmarks.pictures import Curve, Panel, draw
from benchmarks.reporting import spread
from tacenda import datasets
from tacenda.datasets import conllu
from tacenda_lm import HLBL, LBL, KneserNey
from tacenda_lm.log_bilinear.hlbl import BATCH_PIECES, PIECE_WORDS
from tacenda_lm.log_bilinear.lbl import LBLTrainer
from tacenda_lm.streams import Stream

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


SHOWN = 15


def pairs(study: Study) -> None:
    """Tables 3.5 and 3.6: where one model finds a word of the test text far more probable than the other.

    Of each case only the last word before it and the word itself are written down, and every pair once.
    """
    texts = study.bench.texts
    lbl, grams = study.bench.fit(Flat()).test, study.bench.fit(GRAMS).test
    order = np.argsort(grams - lbl, kind="stable")
    rows: list[dict[str, Any]] = []
    for better, ranked in (("LBL", order), ("KN5", order[::-1])):
        seen: set[tuple[int, int]] = set()
        for token in ranked:
            pair = int(texts.before[token]), int(texts.tested[token])
            if pair in seen:
                continue
            seen.add(pair)
            before, word = texts.words(np.array(pair))
            rows.append(
                {
                    "better": better,
                    "last word": before,
                    "next word": word,
                    "ratio": f"{np.exp(lbl[token] - grams[token]):.0e}",
                    "LBL": f"{np.exp(lbl[token]):.0e}",
                    "KN5": f"{np.exp(grams[token]):.0e}",
                }
            )
            if len(seen) == SHOWN:
                break
    told = {
        "ratio": "of the probability by the LBL (5 words) to that by KN5",
        "shown": "the last word of the context and the next one, of the most extreme cases of the test text",
    }
    study.save("pairs", told, rows)


DECADES = 8


def decades(scores: Scores) -> np.ndarray[Any, np.dtype[np.int64]]:
    """0 for probabilities above a tenth, 1 above a hundredth ... 7 for those below 10^-7."""
    return np.asarray(np.clip(np.ceil(-scores / np.log(10)).astype(np.int64) - 1, 0, DECADES - 1))


def predictions(study: Study) -> None:
    """Figure 3.2: how probable the words of the test text are found, and what each decade costs."""
    models: dict[str, Recipe] = {
        "LBL": Flat(),
        "KN5": GRAMS,
        "HLBL": Hierarchical(recipes.BEST),
    }
    found: dict[str, tuple[list[float], list[float]]] = {}
    for name, recipe in models.items():
        scores = study.bench.fit(recipe).test
        bins = decades(scores)
        n = np.bincount(bins, minlength=DECADES)
        cost = np.bincount(bins, -scores, DECADES)
        found[name] = (
            (100 * n / n.sum()).round(2).tolist(),
            (100 * cost / cost.sum()).round(2).tolist(),
        )
    ends = ["1", "0.1", "0.01", "0.001", *(f"1e-{i}" for i in range(4, DECADES))]
    labels = [f"{low} to {high}" for high, low in pairwise(ends)] + ["less"]
    rows = [
        {
            "probability": label,
            **{f"{name} words %": found[name][0][i] for name in found},
            **{f"{name} cost %": found[name][1][i] for name in found},
        }
        for i, label in enumerate(labels)
    ]
    told = {
        "words %": "share of the words of the test text with such a probability",
        "cost %": "their share of the negative log-probability of the test text",
        "HLBL": recipes.BEST.name,
    }
    study.save("predictions", told, rows)
    if study.write:
        panels = [
            Panel(
                title,
                "probability of the word",
                [Curve(name, found[name][part], color=f"C{i}") for i, name in enumerate(found)],
                labels,
            )
            for part, title in enumerate(("words", "cost: share of the negative log-probability"))
        ]
        draw(study.name("predictions"), panels, y_label="%")


EXPECTED_SHOWN = 10


def occurrences(texts: Texts, context: str) -> int:
    """How often the last words of the context stand together in the training text."""
    wanted = texts.train.vocabulary.encode(context.split()[-CONTEXT:])
    ids, _ = tokens(texts.train)
    windows = np.lib.stride_tricks.sliding_window_view(ids, len(wanted))
    return int((windows == wanted).all(axis=1).sum())


def next_words(study: Study) -> None:
    """Tables 3.7 to 3.9: the words that a model expects after a beginning, which was written for this."""
    bench = study.bench
    models = {
        "LBL": bench.model(Flat()),
        "HLBL": bench.model(Hierarchical(recipes.BEST)),
        "KN5": KneserNey(order=5).fit(bench.texts.train),
    }
    rows: list[dict[str, Any]] = []
    for context in study.plan.contexts:
        unknown = [word for word in context.split() if word not in bench.texts.train.vocabulary]
        if unknown:
            raise ValueError(f"{context!r}: not in the vocabulary: {', '.join(unknown)}")
        found = {name: model.top_k(context, EXPECTED_SHOWN) for name, model in models.items()}
        n = occurrences(bench.texts, context)
        for rank in range(EXPECTED_SHOWN):
            row: dict[str, Any] = {"context": context, "rank": rank + 1}
            for name, words in found.items():
                row[name] = words[rank][0]
                row[f"{name} p"] = f"{words[rank][1]:.2g}"
            rows.append({**row, "context in training text": n})
    told = {
        "context": "written for this; 'context in training text' is how often its last five words stand together there",
        "HLBL": recipes.BEST.name,
    }
    study.save("next-words", told, rows)


ORDERS = (2, 3, 6)


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


NEAREST = 5


def tags_of(words: Sequence[str]) -> list[str | None]:
    """The most frequent universal tag of each word in UD English EWT, case aside; None where it is not there."""
    seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in conllu.read(datasets.locate("ud-english-ewt")["train"]):
        for word, tag in zip(sentence.words, sentence.upos, strict=True):
            seen[word.lower()][tag] += 1
    return [
        seen[word.lower()].most_common(1)[0][0] if word.lower() in seen else None for word in words
    ]


def agreement(vectors: npt.NDArray[np.float32], tags: Sequence[str | None]) -> dict[str, float]:
    """Of the words that have a tag: share of the nearest words by the cosine that have the same one, in per cent.

    Returns
    -------
    the share, the one that words drawn at random would have, and the number of words.
    """
    with_tag = [i for i, tag in enumerate(tags) if tag is not None]
    names = np.array([tags[i] for i in with_tag])
    unit = vectors[with_tag]
    unit = unit / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -2)
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :NEAREST]
    same = float((names[nearest] == names[:, None]).mean())
    n = len(names)
    counts = np.array(list(Counter(names.tolist()).values()))
    chance = float((counts * (counts - 1)).sum() / (n * (n - 1)))
    return {"same %": round(100 * same, 1), "chance %": round(100 * chance, 1), "tagged": n}


NEIGHBOURS, PICTURED, LABELLED = 6, 1000, 140
LAST_LETTER = 0x24F
"""Of the Latin alphabet; the fonts of a plain installation have no others."""
_Floats = npt.NDArray[np.float32]


def neighbours(vectors: _Floats, word: int, allowed: npt.NDArray[np.bool_]) -> list[int]:
    """The most similar words by the cosine, of those allowed."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    cosines = unit @ unit[word]
    cosines[~allowed] = -2
    cosines[word] = -2
    return [int(i) for i in np.argsort(-cosines, kind="stable")[:NEIGHBOURS]]


def vectors(study: Study) -> None:
    """Figures 3.3, 3.4, 4.1 and 4.2: word vectors in two dimensions, and the neighbours of some words."""
    texts = study.bench.texts
    vectors: dict[str, _Floats] = {}
    for name, recipe in (("LBL", Flat()), ("HLBL", Hierarchical(recipes.BEST))):
        model = study.bench.model(recipe)
        assert isinstance(model, HLBL | LBL)
        vectors[name] = np.asarray(model.parameters.words, np.float32)
    known = texts.counts >= 20
    rows: list[dict[str, Any]] = []
    for word in study.plan.asked:
        at = texts.train.vocabulary.id_of(word)
        near = {name: neighbours(each, at, known) for name, each in vectors.items()}
        told = {name: ", ".join(texts.words(np.array(ids))) for name, ids in near.items()}
        rows.append({"word": word, **told})
    study.save(
        "neighbours",
        {
            "what": "nearest feature vectors of context words by the cosine, of words with 20 tokens or more",
            "HLBL": recipes.BEST.name,
        },
        rows,
    )
    groups, words = grouped(texts.counts), texts.train.vocabulary.words
    tagged: list[dict[str, Any]] = []
    for group, chosen in groups.items():
        tags = tags_of([words[i] for i in chosen])
        for model_name, each in vectors.items():
            row = {"words": f"{PICTURED} {group}", "model": model_name}
            tagged.append({**row, **agreement(each[chosen], tags)})
    study.save(
        "tags",
        {
            "same %": f"of the {NEAREST} nearest words of the same group by the cosine: how many have the part of "
            "speech of the word itself; tags are the words' most frequent ones in UD English EWT, case aside",
            "chance %": "of words drawn at random",
            "tagged": "words of the group that occur in UD English EWT; the others are left out",
            "HLBL": recipes.BEST.name,
        },
        tagged,
    )
    if study.write:
        draw_words(study.name("vectors"), vectors, groups, words)


def grouped(counts: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.int64]]:
    """The words that occur most, and least."""
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    return {"most frequent": order[:PICTURED], "rarest": order[-PICTURED:]}


def placed(vectors: _Floats) -> _Floats:
    """t-SNE with the thesis's perplexity of 20: (words, 2)."""
    from sklearn.manifold import TSNE

    found = TSNE(perplexity=20, init="pca", random_state=0).fit_transform(vectors)
    return np.asarray(found, np.float32)


def draw_words(
    name: str,
    vectors: dict[str, _Floats],
    groups: dict[str, npt.NDArray[np.int64]],
    words: Sequence[str],
) -> None:
    """``benchmarks/results/<name>.png``: frequent and rare words of each model, some of them named."""
    pyplot = reporting.pyplot()

    named = np.random.default_rng(0).permutation(PICTURED)[:LABELLED]
    figure, grid = pyplot.subplots(2, 2, figsize=(15, 13), layout="constrained")
    for line, (model, each) in zip(grid, vectors.items(), strict=True):
        for axes, (group, chosen) in zip(line, groups.items(), strict=True):
            at = placed(each[chosen])
            axes.scatter(*at.T, s=2, color="0.8")
            for i in named:
                if max(map(ord, words[chosen[i]])) > LAST_LETTER:
                    continue
                axes.text(*at[i], words[chosen[i]], fontsize=6, ha="center", va="center")
            axes.set_title(f"{model}: the {PICTURED} {group} words", fontsize=10)
            axes.set_axis_off()
    path = reporting.RESULTS / f"{name}.png"
    figure.savefig(path, dpi=80, pil_kwargs={"optimize": True})
    pyplot.close(figure)


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
    rows = []
    for part in range(PARTS):
        ours = {name: perplexity(found[part]) for name, found in scores.items()}
        theirs = {f"{name} APNews": published.EIGHTHS[name][part] for name in makers}
        rows.append({"without eighth": str(part + 1), **ours, **theirs})
    combined = {name: perplexity(averaged(found)) for name, found in scores.items()}
    theirs = {f"{name} APNews": published.COMBINED[name] for name in makers}
    rows.append({"without eighth": "combined", **combined, **theirs})
    told = {
        "tree": f"{tree.name}, of the whole training text, for all eight; APNews: ADAPTIVE(0.4) x 4",
        "combined": "the mean of the eight predicted probabilities",
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
    study.save("eighths", told, rows, EITHER)
    study.save("bias-variance", {**told, "unit": "nats a word, eqs 4.9 and 4.10"}, parts)


STEPS, FLAT_STEPS, REPEATS = 150, 4, 5


Work = tuple[Callable[[], None], int]


def tree_work(study: Study, recipe: Hierarchical) -> Work:
    """A stretch of training, and its tokens."""
    trainer = trainer_on(recipe.settings, study.bench.tree(recipe.tree), study.bench.texts.train)
    begins = np.random.default_rng(0).permutation(trainer.begins)
    starts = begins[: STEPS * BATCH_PIECES].reshape(-1, BATCH_PIECES)

    def work() -> None:
        for part in starts:
            trainer.step((part,), 0.1)

    return work, starts.size * PIECE_WORDS


def flat_work(study: Study, recipe: Flat) -> Work:
    """A stretch of training, and its tokens."""
    train, settings = study.bench.texts.train, recipe.settings
    trainer = LBLTrainer(settings, train.type_counts, Stream.of_corpus(train, False), None)
    steps = FLAT_STEPS if recipe.loss == "softmax" else STEPS
    positions = np.flatnonzero(~trainer.text.firsts)
    batches = np.random.default_rng(0).choice(positions, (steps, settings.batch_words))

    def work() -> None:
        for batch in batches:
            trainer.step((batch,), 0.1)

    return work, batches.size


def speed(study: Study) -> None:
    """Table 4.5: time of an epoch on every tree, beside the LBL. Measured anew every time."""
    texts = study.bench.texts
    tokens = texts.train.n_tokens + texts.train.n_sentences
    works = {tree.name: tree_work(study, Hierarchical(tree)) for tree in recipes.TREES}
    works["LBL"] = flat_work(study, Flat(loss="softmax"))
    works["LBL by NCE"] = flat_work(study, Flat())
    seconds = reporting.interleaved({name: work for name, (work, _) in works.items()}, REPEATS)
    rates = {name: n / statistics.median(seconds[name]) for name, (_, n) in works.items()}
    rows = []
    for name, rate in rates.items():
        row = {
            "model": name if "LBL" in name else f"HLBL, {name}",
            "tokens/s": round(rate),
            "least": round(works[name][1] / max(seconds[name])),
            "most": round(works[name][1] / min(seconds[name])),
            "seconds an epoch": round(tokens / rate, 1),
            "times as fast as the LBL": round(rate / rates["LBL"], 1),
        }
        if name in published.MINUTES:
            minutes = published.MINUTES[name]
            row["minutes an epoch APNews"] = minutes
            row["times as fast APNews"] = round(published.MINUTES["LBL"] / minutes, 1)
        rows.append(row)
    told = {
        "tokens/s": f"of {STEPS} steps ({FLAT_STEPS} of the exact LBL) of 512 tokens, evaluation left out",
        "repeats": reporting.TURNS,
        "APNews": "14 million words, 17,964 types, one core of its time",
    }
    study.save("speed", told, rows)
