"""Fitting: subspace identification, then EM in a fixed subspace, then EM over the whole vocabulary."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda.errors import CorpusError
from tacenda.progress import Progress, track
from tacenda_embeddings.lds.asos import Statistics, expectation, maximization
from tacenda_embeddings.lds.config import LDSConfig
from tacenda_embeddings.lds.counts import LaggedCounts
from tacenda_embeddings.lds.linear_algebra import Matrix, spectral_radius
from tacenda_embeddings.lds.moments import Moments, SparseMoments, project
from tacenda_embeddings.lds.noise import DiagonalNoise
from tacenda_embeddings.lds.steady_state import Parameters
from tacenda_embeddings.lds.subspace import (
    HankelFactors,
    admissible,
    basis,
    hankel_svd,
    identify,
    random_parameters,
)


class Step(NamedTuple):
    """One EM iteration: its stage, the likelihood gain of the parameters it began with, seconds so far.

    The gain is in nats per token over the model without dynamics.
    """

    stage: str
    likelihood_gain: float
    seconds: float


class Fit(NamedTuple):
    """Fitted parameters with the second moment of their posterior means and the way there."""

    parameters: Parameters
    Xi: Matrix
    history: list[Step]


class _Trail:
    """Progress bar, history and the warm start of the statistics."""

    def __init__(self, n_steps: int, description: str) -> None:
        self.history: list[Step] = []
        self.Pi: Matrix | None = None
        self._begin = time.perf_counter()
        self._bar: Progress[None] = track(None, description, total=n_steps, unit="step")

    def notify(self, stage: str) -> None:
        self._bar.set_postfix_str(stage)
        self._bar.update()

    def iterate(
        self, parameters: Parameters, moments: Moments, r: int, iterations: int, stage: str
    ) -> Parameters:
        for _ in range(iterations):
            statistics = self.expect(parameters, moments, r, stage, with_observation=True)
            parameters = maximization(statistics, parameters, moments.mean)
        return parameters

    def expect(
        self,
        parameters: Parameters,
        moments: Moments,
        r: int,
        stage: str,
        *,
        with_observation: bool = False,
    ) -> Statistics:
        statistics, _ = expectation(
            parameters, moments, r, self.Pi, with_observation=with_observation
        )
        self.Pi = statistics.Pi
        seconds = time.perf_counter() - self._begin
        self.history.append(Step(stage, statistics.likelihood_gain, seconds))
        self.notify(f"gain {statistics.likelihood_gain:.3f} nats/token")
        return statistics

    def close(self) -> None:
        self._bar.close()


def pseudo_counts(config: LDSConfig, counts: LaggedCounts) -> float:
    """The kappa that is set, or 0.3 tokens per type and average: the value tuned on text, scaled with it."""
    if config.kappa is not None:
        return config.kappa
    return 0.3 * counts.n_tokens / len(counts.unigram)


def check_counts(config: LDSConfig, counts: LaggedCounts) -> None:
    """Refuse counts from which no model of these settings can be fitted."""
    if counts.n_lags < config.n_lags:
        raise CorpusError(
            f"the counts hold {counts.n_lags} lags and these settings need {config.n_lags}: "
            f"count again with n_lags={config.n_lags}"
        )
    n_types = int(np.count_nonzero(counts.unigram))
    if n_types <= config.n_states + 1:
        raise CorpusError(
            f"an LDS of {config.n_states} states needs more than {config.n_states + 1} word types and "
            f"the text has {n_types}: give more text, or set n_states lower"
        )


def fit(config: LDSConfig, counts: LaggedCounts) -> Fit:
    """Fits an LDS to lagged counts from nothing.

    Raises
    ------
    CorpusError
        Too few lags or word types, or counts that no stable system fits.
    """
    check_counts(config, counts)
    kappa = pseudo_counts(config, counts)
    stages = 6 + config.subspace_iterations + config.full_iterations + 1
    trail = _Trail(stages, "fitting the LDS")
    try:
        rng = np.random.default_rng(config.seed)
        moments = SparseMoments(counts, kappa, threads=config.n_threads)
        factors = _factors(config, counts, kappa, moments, rng, trail)
        parameters = identify(factors, moments, maximum_radius=config.maximum_radius)
        if config.start == "random":
            parameters = random_parameters(moments, config.n_states, parameters, rng)
        if config.noise == "full":
            parameters = _in_subspace(config, parameters, factors, moments, trail)
            full_iterations = config.full_iterations
        else:
            d = np.full(len(moments.mean), 0.9)
            noise = DiagonalNoise(d, moments.mean, spherical=config.noise == "spherical")
            parameters = parameters._replace(noise=noise)
            full_iterations = config.subspace_iterations + config.full_iterations
        return _finish(config, parameters, moments, full_iterations, trail)
    except np.linalg.LinAlgError as error:
        raise _unstable(config, error) from error
    finally:
        trail.close()


def _unstable(config: LDSConfig, error: Exception) -> CorpusError:
    return CorpusError(
        f"no stable LDS of {config.n_states} states fits these counts ({error}): give more text, or set "
        "n_states lower or kappa higher"
    )


def refit(
    config: LDSConfig,
    counts: LaggedCounts,
    parameters: Parameters,
    scale: npt.NDArray[np.float64],
    iterations: int,
) -> Fit:
    """EM over the whole vocabulary from an earlier model, after counts of new text were added.

    Parameters
    ----------
    config
        Settings of the earlier model.
    counts
        Of the old and the new text, same vocabulary.
    parameters
        Of the earlier model, in its own whitened coordinates.
    scale
        The diagonal of its W (vocabulary,).
    iterations
        EM iterations.

    Raises
    ------
    CorpusError
        Too few lags or word types, or counts that no stable system fits.
    """
    check_counts(config, counts)
    trail = _Trail(iterations + 1, "refitting the LDS")
    try:
        moments = SparseMoments(counts, pseudo_counts(config, counts), threads=config.n_threads)
        # What a state says of a word stays in proportion to how often the word occurs.
        C = parameters.C * (scale / moments.scale)[:, None].astype(np.float32)
        C -= np.outer(moments.mean, moments.mean @ C).astype(np.float32)
        start = admissible(parameters._replace(C=C), moments.mean)
        return _finish(config, start, moments, iterations, trail)
    except np.linalg.LinAlgError as error:
        raise _unstable(config, error) from error
    finally:
        trail.close()


def _factors(
    config: LDSConfig,
    counts: LaggedCounts,
    kappa: float,
    moments: SparseMoments,
    rng: np.random.Generator,
    trail: _Trail,
) -> HankelFactors:
    """The SVD, in whitened coordinates or, for the comparison, in plain ones and whitened afterwards."""
    if config.whiten:
        return hankel_svd(moments, config.n_states, config.hankel_blocks, rng, notify=trail.notify)
    plain = SparseMoments(counts, kappa, threads=config.n_threads, whiten=False)
    found = hankel_svd(plain, config.n_states, config.hankel_blocks, rng, notify=trail.notify)
    scale = moments.scale[:, None].astype(np.float32)
    return HankelFactors(found.Gamma * scale, found.Delta * scale, found.singular_values)


def _in_subspace(
    config: LDSConfig,
    parameters: Parameters,
    factors: HankelFactors,
    moments: SparseMoments,
    trail: _Trail,
) -> Parameters:
    if not config.subspace_iterations:
        return parameters
    trail.notify("compressing")
    B = basis(factors, moments.mean, round(config.subspace_factor * config.n_states))
    compressed = project(moments, B, config.horizon)
    inside = parameters._replace(C=np.asarray(B.T @ parameters.C, dtype=np.float64))
    inside = trail.iterate(
        inside, compressed, config.horizon, config.subspace_iterations, "subspace"
    )
    return inside._replace(C=B @ inside.C.astype(np.float32))


def _finish(
    config: LDSConfig,
    parameters: Parameters,
    moments: SparseMoments,
    iterations: int,
    trail: _Trail,
) -> Fit:
    parameters = trail.iterate(parameters, moments, config.horizon, iterations, "full")
    statistics = trail.expect(parameters, moments, config.horizon, "final")
    if spectral_radius(parameters.A) >= 1.0:
        raise np.linalg.LinAlgError("the state grows without bound")
    return Fit(parameters, statistics.Xi, trail.history)
