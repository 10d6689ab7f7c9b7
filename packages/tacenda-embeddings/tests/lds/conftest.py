from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from support.modules import load_module
from tacenda_embeddings.lds import DiagonalNoise, FullNoise, Parameters


@pytest.fixture(scope="session")
def oracles():
    return load_module(Path(__file__).with_name("oracles.py"))


@pytest.fixture
def rng():
    return np.random.default_rng(20150707)


@pytest.fixture(scope="session")
def parameters_of():
    """The system of an oracle as the code under test takes it; a diagonal D keeps its own kind."""

    def make(system, noise="full"):
        if noise == "full":
            kind = FullNoise(system.P)
        else:
            kind = DiagonalNoise(np.diag(system.D).copy(), system.m, noise == "spherical")
        return Parameters(system.A, system.C, system.Q, kind)

    return make


@pytest.fixture(scope="session")
def with_diagonal_noise(oracles):
    """The same states seen through independent noise, one number for all of it if spherical."""

    def make(system, noise):
        d = np.diag(system.D) + 0.1
        if noise == "spherical":
            d = np.full_like(d, d.mean())
        return system._replace(D=np.diag(d))

    return make


class Messages(NamedTuple):
    """The parts of the smoothed mean xs = own + past + future, each (tokens, states) float32."""

    own: np.ndarray
    past: np.ndarray
    future: np.ndarray


@pytest.fixture(scope="session")
def messages_of():
    """The exact parts of the smoothed mean of every token, one `Messages` a sentence."""

    def parts(smoother, sentences, exact_ends=True):
        offsets = np.cumsum([0, *map(len, sentences)])
        ids = np.concatenate([*sentences, np.empty(0, int)]).astype(np.int64)
        h = smoother.states
        contexts = np.zeros((len(ids), 2 * h), np.float32)
        past, future = smoother.find_ends(ids, offsets) if exact_ends else (None, None)
        smoother._forward.scan(ids, offsets, past, contexts)
        smoother._backward.scan(ids, offsets, future, contexts)
        past, future = (
            contexts[:, part] @ smoother._from_bases[part] for part in (slice(h), slice(h, None))
        )
        found = smoother.table.take(ids, axis=0), past, future
        return [Messages(*(part[i:j] for part in found)) for i, j in pairwise(offsets)]

    return parts
