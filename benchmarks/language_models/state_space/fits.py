"""Models of letters: excerpts, the plans of what is compared, and what each says of every letter of an excerpt.

The text of a Finnish book is read as lower-case letters and the space between words, which counts as a letter; whatever
else stands between letters is a space, and several are one. An excerpt begins at an offset in these letters: its dense
training text comes first, then the development text, then the test text. The sparse training text is the end of the
dense one. All settings but the order and the dimensions were chosen on the excerpts at `TUNING`.

What a fit has found is kept, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks import kept
from tacenda import Corpus, datasets
from tacenda_lm import KneserNey, StateSpaceLM
from tacenda_lm.mixture.weights import fit_weights

SPARSE, DENSE, DEVELOPMENT, TEST = 1_016, 100_080, 5_006, 5_037  # letters; those of the paper
#: Where the excerpts of all tables begin.
OFFSETS = (20_000, 240_000, 460_000, 680_000, 900_000)
#: Where those begin on which settings were chosen; no table shows them, and they share no letter with the others.
TUNING = (1_120_000, 1_340_000)
SPACE = "_"
_NOTE = 5  # lines at the beginning of the file, which are the edition's


@cache
def letters() -> str:
    """The whole book."""
    path = datasets.locate("alastalon-salissa")["text"]
    encoding = "iso-8859-1" if path.name == "0460.txt" else "utf-8"
    lines = path.read_text(encoding=encoding).split("\n")[_NOTE:]
    text = "".join(c if c.isalpha() else " " for c in "\n".join(lines).lower())
    return SPACE.join(text.split())


class Excerpt(NamedTuple):
    """Texts as lists of letters."""

    sparse: list[str]
    dense: list[str]
    development: list[str]
    test: list[str]

    @classmethod
    def at(cls, offset: int) -> Excerpt:
        """The excerpt that begins at an offset."""
        book, ends = letters(), [offset]
        for size in (DENSE, DEVELOPMENT, TEST):
            ends.append(ends[-1] + size)
        if offset < 0 or ends[-1] > len(book):
            raise SystemExit(f"the book has {len(book):,} letters; no excerpt begins at {offset:,}")
        dense, development, test = (list(book[i:j]) for i, j in itertools.pairwise(ends))
        return cls(dense[-SPARSE:], dense, development, test)

    def corpus(self, size: str) -> Corpus:
        """A training text as one sentence."""
        return Corpus.from_sentences([getattr(self, size)])


_TEXTS = ("development", "test")
Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """A model of letters.

    Attributes
    ----------
    family
        ``"n-gram"`` or ``"state-space"``.
    size
        Of the training text, ``"sparse"`` or ``"dense"``.
    settings
        Of `KneserNey` or `StateSpaceLM`.
    name
        What tables call it.
    """

    family: str
    size: str
    settings: dict[str, Any] = field(hash=False)
    name: str = ""

    @property
    def order(self) -> int:
        return int(self.settings["order"])

    @property
    def dimensions(self) -> tuple[int | None, int | None]:
        """N_q and N_l; None for the latter where no token has a feature vector."""
        n_q = self.settings.get("internal")
        return n_q, self.settings.get("features") if self.order > 1 else None


class Found(NamedTuple):
    """What a model says: the natural log-probability of every letter that it knows, and what its fit took."""

    development: Scores
    test: Scores
    train: float  # perplexity of the training text, as training saw it in its last epoch; NaN for n-grams
    epochs: int
    seconds: float  # of the processor

    @property
    def perplexities(self) -> dict[str, float]:
        """Of both texts."""
        return {name: perplexity(getattr(self, name)) for name in _TEXTS}


def perplexity(scores: Scores) -> float:
    """Eq 13; letters that the model does not know are not among the scores."""
    return float(np.exp(-scores.mean()))


def found(plan: Plan, offset: int) -> Found:
    """Return what the model says of the excerpt at an offset; it is fitted unless that is kept."""

    def make(folder: Path) -> dict[str, Any]:
        found = _fitted(plan, Excerpt.at(offset))
        np.savez(folder / "scores.npz", development=found.development, test=found.test)
        return {"train": found.train, "epochs": found.epochs, "CPU s": found.seconds}

    facts = [plan.family, plan.size, plan.settings, offset]
    folder, known = kept.folder("state-space", facts, make)
    with np.load(folder / "scores.npz") as scores:
        of_texts = [scores[name] for name in _TEXTS]
    return Found(*of_texts, known["train"], known["epochs"], known["CPU s"])


def _fitted(plan: Plan, excerpt: Excerpt) -> Found:
    corpus = excerpt.corpus(plan.size)
    begun = time.process_time()
    train, epochs = float("nan"), 0
    model: KneserNey | StateSpaceLM
    if plan.family == "n-gram":
        model = KneserNey(**plan.settings).fit(corpus)
    else:
        model = StateSpaceLM(**plan.settings).fit(corpus, [excerpt.development])
        losses = model.fitted_on["training"]["epoch_losses"]
        train, epochs = float(np.exp(losses[-1])), len(losses)
    seconds = time.process_time() - begun
    scores = (_known(model, getattr(excerpt, name)) for name in _TEXTS)
    return Found(*scores, train, epochs, seconds)


def _known(model: KneserNey | StateSpaceLM, text: list[str]) -> Scores:
    """Natural log-probabilities of the letters of a text that the model knows; ``</s>`` is not asked for."""
    [scores] = model.token_log_probs([text], eos=False)
    return scores[[letter in model.vocabulary for letter in text]]


def mixed(several: Sequence[Found]) -> tuple[Found, list[float]]:
    """The linear mixture of models, and its weights, fitted on the development text."""
    weights = fit_weights(np.array([each.development for each in several]))
    with np.errstate(divide="ignore"):
        logs = np.log(weights)[:, None]
    mixture = [
        np.logaddexp.reduce(logs + np.array([getattr(each, name) for each in several]), axis=0)
        for name in _TEXTS
    ]
    return Found(*mixture, float("nan"), 0, sum(each.seconds for each in several)), weights.tolist()


SIZES = ("sparse", "dense")
ORDERS = (1, 2, 3, 5)
#: The sum of squares that no matrix exceeds under the rules: the paper's, and one that all but frees them.
LIMITS = (10.0, 100.0)

_RULES: dict[str, dict[str, Any]] = {
    "sparse": {"training": "rules", "epochs": 40, "patience": 8, "learning_rate": 0.2,
               "advanced": {"biases": False, "variance": 0.1, "streams": 16, "piece": 1, "last_piece": 16}},
    "dense": {"training": "rules", "epochs": 10, "learning_rate": 0.1,
              "advanced": {"biases": False, "variance": 0.1, "streams": 100, "piece": 1, "last_piece": 20}},
}  # fmt: skip
_GRADIENT: dict[str, dict[str, Any]] = {
    "sparse": {"epochs": 30, "patience": 6, "dropout": 0.5, "learning_rate": 0.1, "advanced": {"streams": 8}},
    "dense": {"epochs": 6, "dropout": 0.0, "learning_rate": 0.1, "advanced": {"streams": 64}},
}  # fmt: skip
_RUNS: dict[str, dict[str, Any]] = {
    "sparse": {"order": 2, "internal": 0, "features": 15, "epochs": 30, "patience": 5, "dropout": 0.5,
               "learning_rate": 0.1,
               "advanced": {"streams": 8, "joint_order": 5, "joint_dropout": 0.1, "joint_width": 50,
                            "joint_sum": 1e-3}},
    "dense": {"order": 5, "internal": 0, "features": 25, "epochs": 7, "dropout": 0.2,
              "learning_rate": 0.1,
              "advanced": {"streams": 64, "joint_order": 6, "joint_dropout": 0.05, "joint_width": 50,
                           "joint_sum": 1e-5}},
}  # fmt: skip
BY_RULES, BY_GRADIENTS = "state-space, rules", "state-space, gradients"
RUNS = "state-space, gradients, runs of letters"


def ngrams(size: str) -> list[Plan]:
    """N-grams of both kinds; the best is chosen on the development texts."""
    found = [Plan("n-gram", size, {"order": order}, "Kneser-Ney") for order in range(2, 9)]
    for order in range(2, 7):
        for min_count in (1, 2):
            settings = {"order": order, "smoothing": "good_turing", "min_count": min_count}
            found.append(Plan("n-gram", size, settings, "Good-Turing"))
    return found


def dimensions(size: str, order: int) -> list[tuple[int, int]]:
    """The pairs N_q and N_l that are tried for an order with gradients.

    Where text is dense only order 2 has an internal state: whether it can stand for the feature vectors of more letters
    is the question that the paper leaves open.
    """
    if order == 1:
        return [(q, 1) for q in (5, 20, 40)]
    if size == "sparse":
        return [(0, 15), (10, 15), (40, 25)]
    return [(0, 15), (40, 25)] if order == 2 else [(0, 15)]


def _state_space(
    size: str, order: int, pair: tuple[int, int], base: dict[str, Any], name: str
) -> Plan:
    settings = {**base, "order": order, "internal": pair[0]}
    if order > 1:
        settings["features"] = pair[1]
    if not pair[0]:
        settings.pop("inference", None)
    return Plan("state-space", size, settings, name)


def gradient(size: str, order: int, pair: tuple[int, int], **others: Any) -> Plan:
    """The paper's model, trained by gradients."""
    return _state_space(size, order, pair, {**_GRADIENT[size], **others}, BY_GRADIENTS)


def rules(size: str, order: int, pair: tuple[int, int], limit: float = LIMITS[0]) -> Plan:
    """The paper's model, trained by its rules; states are inferred by one step of ascent."""
    base = {**_RULES[size], "advanced": {**_RULES[size]["advanced"], "norm_limit": limit}}
    if order == 1:  # whose input comes through inference alone, and moves little
        base["learning_rate"] = 0.5
    return _state_space(size, order, pair, base, BY_RULES)


def runs(size: str, seed: int = 0) -> Plan:
    """The model with vectors of runs of letters."""
    return Plan("state-space", size, {**_RUNS[size], "seed": seed}, RUNS)
