"""Models of letters: what each is called, how it is fitted, and what it says of every letter of an excerpt.

What a fit has found is kept under TACENDA_BENCH_CACHE, by its settings, its excerpt and the code that fitted it, so
that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks import freshness, parts
from benchmarks.language_models.state_space.letters import Excerpt
from tacenda_lm import KneserNey, StateSpaceLM
from tacenda_lm.mixture import fit_weights

__all__ = ["Found", "Plan", "found", "mixed", "perplexity"]

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

    def key(self, offset: int) -> str:
        """What tells this fit on the excerpt at an offset from others."""
        measured = (
            ["lm/ngram"]
            if self.family == "n-gram"
            else ["lm/state_space.py", "lm/linear_states.py", "lm/linear_state_loop.py"]
        )
        code = [freshness.code(part) for part in measured]
        facts = [self.family, self.size, self.settings, offset, code]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:20]


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
    """What the model says of the excerpt at an offset; it is fitted unless that is known."""
    file = parts.kept_folder() / "state-space" / f"{plan.key(offset)}.npz"
    if file.exists():
        with np.load(file) as kept:
            return Found(*(kept[name] for name in _TEXTS), *kept["numbers"].tolist())
    result = _fitted(plan, Excerpt.at(offset))
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".tmp.npz")
    numbers = np.array([result.train, result.epochs, result.seconds])
    np.savez(temporary, development=result.development, test=result.test, numbers=numbers)
    temporary.replace(file)
    return result


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
    """The linear mixture of models, and its weights, fitted by EM on the development text."""
    weights = fit_weights(np.array([each.development for each in several]))
    with np.errstate(divide="ignore"):
        logs = np.log(weights)[:, None]
    mixture = [
        np.logaddexp.reduce(logs + np.array([getattr(each, name) for each in several]), axis=0)
        for name in _TEXTS
    ]
    return Found(*mixture, float("nan"), 0, sum(each.seconds for each in several)), weights.tolist()
