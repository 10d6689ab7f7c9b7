"""Predict from each golden folder, which earlier code wrote: so only names that outlive it are used."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import tacenda

HERE = Path(__file__).parent
TEXT = [["walks", "unseen", "played"], ["look", "Walked", "17"], ["talking", "talk", "looks"]]
#: Users known, folded in and unknown; items known and unknown.
USERS, ITEMS = ["u0", "u1", "u7", "told", "new", "nobody"], ["i0", "i1", "i5", "i9", "nothing"]


def predictions(name: str) -> list[float]:
    """What a golden folder predicts, once loaded by the code that is imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _PREDICTIONS[name.partition("-")[0]](HERE / name)
    return [float(f"{number:.9g}") for part in found for number in np.ravel(part)]


def saved() -> list[str]:
    """The names of the golden folders."""
    return sorted(each.name for each in HERE.iterdir() if each.is_dir() and each.name[0] != "_")


def _embedder(folder: Path) -> list[Any]:
    model = tacenda.load(folder)
    return [vectors[:, :6] for vectors in model.transform(TEXT)]


def _language_model(folder: Path) -> list[Any]:
    model = tacenda.load(folder)
    probabilities = sorted((p for _, p in model.top_k(["talks"], 4)), reverse=True)
    contexts = [model.perplexity(TEXT, context=each).value for each in ("sentence", "stream")]
    return [*model.surprisals(TEXT, eos=True), contexts, probabilities]


def _hidden_markov(folder: Path) -> list[Any]:
    paths = [tacenda.load(folder).viterbi(sentence) for sentence in TEXT]
    return [*_language_model(folder), *paths]


def _recommender(folder: Path) -> list[Any]:
    import tacenda_surprise

    tacenda.load(folder)  # which knows the folder too
    model = tacenda_surprise.RatingAlgorithm.load(folder)
    found = [[model.predict(user, item).est for item in ITEMS] for user in USERS]
    person = model.fold_in({"i0": 5.0, "i3": 1.0}, ["i4"])
    best = [estimate for _, estimate in model.top_n(3, ["u1"])["u1"]]
    return [*found, [person.predict(item) for item in ITEMS], best]


def _rating_model(folder: Path) -> list[Any]:
    model = tacenda.load(folder)
    return [model.score_pairs(np.array([0, 1, -1, 2]), np.array([0, -1, 1, 2]))]


def _pipeline(folder: Path) -> list[Any]:
    import spacy

    nlp = spacy.load(folder)
    found: list[Any] = []
    for text in map(" ".join, TEXT):
        doc = nlp(text)
        if "lm_scorer" in nlp.pipe_names:
            found.append([token._.surprisal for token in doc])
        elif nlp.pipe_names:
            found.append(doc.tensor[:, :6])
        else:
            found.append([token.vector for token in doc])
        if "tagger" in nlp.pipe_names:
            found.append(nlp.get_pipe("tagger").model.predict([doc])[0])
    return found


_PREDICTIONS = {
    "embedder": _embedder,
    "lm": _language_model,
    "hmm": _hidden_markov,
    "ratings": _recommender,
    "model": _rating_model,
    "spacy": _pipeline,
}


def golden() -> dict[str, list[float]]:
    """What the code that wrote the folders predicted."""
    found: dict[str, list[float]] = json.loads((HERE / "predictions.json").read_text("utf-8"))
    return found
