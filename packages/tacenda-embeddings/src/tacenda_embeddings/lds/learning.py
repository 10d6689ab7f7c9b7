"""Fitting: subspace identification, then EM in a fixed subspace, then EM over the whole vocabulary."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from tacenda.errors import CorpusError
from tacenda.progress import Progress, track
from tacenda_embeddings.lds.asos import Statistics, expectation, maximization
from tacenda_embeddings.lds.fitted import FittedLDS
from tacenda_embeddings.lds.lagged_counts import LaggedCounts
from tacenda_embeddings.lds.linear_algebra import Matrix, spectral_radius
from tacenda_embeddings.lds.moments import Moments, SparseMoments, project
from tacenda_embeddings.lds.noise import DiagonalNoise
from tacenda_embeddings.lds.settings import LDSSettings
from tacenda_embeddings.lds.steady_state import Parameters
from tacenda_embeddings.lds.subspace import (
    HankelFactors,
    admissible,
    basis,
    hankel_svd,
    identify,
    random_parameters,
)

__all__ = ["Fit", "Step", "fit", "partial_fit"]

_STAGES = 6  # steps of the progress bar before the first EM iteration


class Step(NamedTuple):
    """One EM iteration."""

    stage: str
    likelihood_gain: float  # of the parameters it began with, nats per token over no dynamics
    seconds: float  # since the fit began


class Fit(NamedTuple):
    """A fitted model and its EM iterations."""

    state: FittedLDS
    history: list[Step]


def fit(settings: LDSSettings, counts: LaggedCounts) -> Fit:
    """Fit an LDS to lagged counts from nothing.

    Raises
    ------
    CorpusError
        There are too few lags or word types, or no stable system fits the counts.
    """
    moments = _moments(settings, counts)
    iterations = settings.full_iterations
    n_steps = _STAGES + settings.subspace_iterations + iterations + 1
    with _em(settings, n_steps, "fitting the LDS") as em:
        rng = np.random.default_rng(settings.seed)
        factors = _hankel_factors(settings, counts, moments, rng, em)
        parameters = identify(factors, moments, maximum_radius=settings.advanced.maximum_radius)
        if settings.advanced.start == "random":
            parameters = random_parameters(moments, settings.n_states, parameters, rng)
        if settings.advanced.noise == "full":
            parameters = _in_subspace(settings, parameters, factors, moments, em)
        else:
            d = np.full(len(moments.mean), 0.9)
            spherical = settings.advanced.noise == "spherical"
            noise = DiagonalNoise(d, moments.mean, spherical=spherical)
            parameters = parameters._replace(noise=noise)
            iterations += settings.subspace_iterations
        return em.finish(parameters, moments, counts, iterations)


def partial_fit(
    settings: LDSSettings, counts: LaggedCounts, earlier: FittedLDS, iterations: int
) -> Fit:
    """Run EM over the whole vocabulary from an earlier model, after counts of new text were added.

    ``settings`` are those of the earlier model; ``counts`` are of the old and the new text, in its vocabulary. Raises
    CorpusError as `fit` does.
    """
    moments = _moments(settings, counts)
    with _em(settings, iterations + 1, "fitting the LDS to more text") as em:
        # What a state says of a word stays in proportion to how often the word occurs.
        scale = (earlier.scale / moments.scale)[:, None].astype(np.float32)
        C = earlier.parameters.C * scale
        C -= np.outer(moments.mean, moments.mean @ C).astype(np.float32)
        start = admissible(earlier.parameters._replace(C=C), moments.mean)
        return em.finish(start, moments, counts, iterations)


def _moments(settings: LDSSettings, counts: LaggedCounts) -> SparseMoments:
    """Return the whitened moments, or refuse counts from which no such model can be fitted."""
    if counts.n_lags < settings.n_lags:
        raise CorpusError(
            f"the counts hold {counts.n_lags} lags and these settings need {settings.n_lags}: "
            f"count again with n_lags={settings.n_lags}"
        )
    n_types = int(np.count_nonzero(counts.unigram))
    if n_types <= settings.n_states + 1:
        raise CorpusError(
            f"an LDS of {settings.n_states} states needs more than {settings.n_states + 1} word types and "
            f"the text has {n_types}: give more text, or set n_states lower"
        )
    kappa = settings.kappa
    if kappa is None:  # the value tuned on text, scaled with the size of the text
        kappa = 0.3 * counts.n_tokens / len(counts.unigram)
    return SparseMoments(counts, kappa, threads=settings.n_threads)


def _hankel_factors(
    settings: LDSSettings,
    counts: LaggedCounts,
    moments: SparseMoments,
    rng: np.random.Generator,
    em: _EM,
) -> HankelFactors:
    """The SVD in whitened coordinates or, for the comparison, in plain ones and whitened afterwards."""
    blocks = settings.advanced.hankel_blocks
    if settings.advanced.whiten:
        return hankel_svd(moments, settings.n_states, blocks, rng, notify=em.notify)
    plain = SparseMoments(counts, moments.kappa, threads=settings.n_threads, whiten=False)
    found = hankel_svd(plain, settings.n_states, blocks, rng, notify=em.notify)
    scale = moments.scale[:, None].astype(np.float32)
    return HankelFactors(found.Gamma * scale, found.Delta * scale, found.singular_values)


def _in_subspace(
    settings: LDSSettings,
    parameters: Parameters,
    factors: HankelFactors,
    moments: SparseMoments,
    em: _EM,
) -> Parameters:
    """EM with C restricted to the directions that the Hankel factors see."""
    if not settings.subspace_iterations:
        return parameters
    em.notify("compressing")
    width = round(settings.advanced.subspace_factor * settings.n_states)
    B = basis(factors, moments.mean, width)
    compressed = project(moments, B, settings.advanced.horizon)
    inside = parameters._replace(C=np.asarray(B.T @ parameters.C, dtype=np.float64))
    inside = em.iterate(inside, compressed, settings.subspace_iterations, "subspace")
    return inside._replace(C=B @ inside.C.astype(np.float32))


@contextmanager
def _em(settings: LDSSettings, n_steps: int, description: str) -> Iterator[_EM]:
    """Iterations under a progress bar; parameters that are not those of a stable system are a CorpusError."""
    bar: Progress[None] = track(None, description, total=n_steps, unit="step")
    try:
        yield _EM(settings.advanced.horizon, bar)
    except np.linalg.LinAlgError as error:
        raise CorpusError(
            f"no stable LDS of {settings.n_states} states fits these counts ({error}): give more text, or set "
            "n_states lower or kappa higher"
        ) from error
    finally:
        bar.close()


class _EM:
    """EM iterations of one fit: their history, their progress bar, and the warm start of the statistics."""

    def __init__(self, horizon: int, bar: Progress[None]) -> None:
        self.history: list[Step] = []
        self._horizon = horizon
        self._bar = bar
        self._Pi: Matrix | None = None
        self._begin = time.perf_counter()

    def notify(self, stage: str) -> None:
        self._bar.set_postfix_str(stage)
        self._bar.update()

    def iterate(
        self, parameters: Parameters, moments: Moments, iterations: int, stage: str
    ) -> Parameters:
        for _ in range(iterations):
            statistics = self._expect(parameters, moments, stage, with_observation=True)
            parameters = maximization(statistics, parameters, moments.mean)
        return parameters

    def finish(
        self,
        parameters: Parameters,
        moments: SparseMoments,
        counts: LaggedCounts,
        iterations: int,
    ) -> Fit:
        """Iterate over the whole vocabulary, and find the second moment of the smoothed means."""
        parameters = self.iterate(parameters, moments, iterations, "full")
        statistics = self._expect(parameters, moments, "final", with_observation=False)
        if spectral_radius(parameters.A) >= 1.0:
            raise np.linalg.LinAlgError("the state grows without bound")
        C = np.ascontiguousarray(parameters.C, np.float32)
        state = FittedLDS(
            counts.vocabulary,
            parameters._replace(C=C),
            statistics.Xi,
            moments.scale,
            moments.mean,
        )
        return Fit(state, self.history)

    def _expect(
        self, parameters: Parameters, moments: Moments, stage: str, *, with_observation: bool
    ) -> Statistics:
        statistics = expectation(
            parameters, moments, self._horizon, self._Pi, with_observation=with_observation
        )
        self._Pi = statistics.Pi
        seconds = time.perf_counter() - self._begin
        self.history.append(Step(stage, statistics.likelihood_gain, seconds))
        self.notify(f"gain {statistics.likelihood_gain:.3f} nats/token")
        return statistics
