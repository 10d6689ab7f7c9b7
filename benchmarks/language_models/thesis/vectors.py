"""Figures 3.3, 3.4, 4.1 and 4.2: word vectors in two dimensions, and the neighbours of some words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import reporting
from benchmarks.language_models.thesis import recipes
from benchmarks.language_models.thesis.recipes import Flat, Hierarchical
from benchmarks.language_models.thesis.study import Study
from benchmarks.language_models.thesis.tags import NEAREST, agreement, tags_of
from tacenda_lm import HLBL, LBL

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


def main(study: Study) -> None:
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
        draw(study.name("vectors"), vectors, groups, words)


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


def draw(
    name: str,
    vectors: dict[str, _Floats],
    groups: dict[str, npt.NDArray[np.int64]],
    words: Sequence[str],
) -> None:
    """``benchmarks/results/<name>.png``: frequent and rare words of each model, some of them named."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

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
