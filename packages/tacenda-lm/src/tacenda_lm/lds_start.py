"""A recurrent network that starts from a linear dynamical system (Belanger and Kakade 2015, sections 6 and 7.4).

The filter of an LDS with A, C and gain K, of words w_t centred on their frequencies mu and scaled by W, is a recurrent
network without its two nonlinearities (equations 4, 18 and 19):

    x_t = (A - K C A) x_{t-1} + K W (w_t - mu),    E[w_{t+1} | x_t] = mu + W^{-1} C A x_t,    W = diag(mu^{-1/2})

Around zero sigma(z) - 1/2 = z / 4 and, with b = log mu, SoftMax(b + s)_i = mu_i (1 + s_i) up to a constant, to first
order. So the network that computes the same to first order, with z_t = D x_t for a diagonal D, is

    A_rnn = 4 D (A - K C A) D^{-1},    B_rnn = D K W (I - mu),    a = 0
    C_rnn = 4 g W C A D^{-1},          b = log mu

D makes z small enough for the first and large enough to learn. The second approximation does not hold for rare words,
whose predicted frequencies are many times mu_i or negative: g is what makes a sample of the training text most
probable, one number, in which the logarithm of the likelihood is concave. The paper has neither D, g, nor biases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda import artifact
from tacenda.arrays import Array, Float, take
from tacenda.artifact.arrays import restore
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda.fitting import fingerprint_arrays
from tacenda.vocabulary import Vocabulary

_Float64 = npt.NDArray[np.float64]
_Ids = npt.NDArray[np.integer[Any]]

_SPREAD = 0.5  # standard deviation of the elements of z: small values keep sigma where it is nearly linear
_TINY = 1e-30  # least square root of the frequency of a word
_SEQUENCES, _STEPS = 32, 200  # the sample of the text that D is found by
_SCORED = 1024  # its words that g is found by
_SETTLED = 20  # steps after which a filter has forgotten that it began with nothing
_NEWTON = 20  # steps
_MOST = 4.0  # the largest g


class LinearSystem(NamedTuple):
    """The filter of a fitted LDS over the words of a vocabulary, float64."""

    transitions: _Float64  # A - K C A (states, states)
    inputs: _Float64  # K W (w - mu) of every word w (types, states)
    outputs: _Float64  # W C A (types, states)
    source: str  # digest of the arrays that it was made from

    @classmethod
    def load(cls, path: str, vocabulary: Vocabulary) -> LinearSystem:
        """Read the artefact of an LDS, whose plugin is not needed.

        A word that the LDS does not know has what its ``<unk>`` has.

        Raises
        ------
        ConfigurationError
            The folder holds another model.
        ArtifactError
            There is no such artefact, or it is damaged.
        """
        found = artifact.read(path)
        if (found.kind, found.name) != ("embedders", "lds"):
            raise ConfigurationError(
                f"RecurrentLM: lds must be the folder of an LDS, and {path} holds a model {found.name!r}; "
                "make one with `tacenda embed fit --model lds`"
            )
        try:
            arrays = restore(found.arrays)
            theirs = Vocabulary.from_arrays(found.config.get("vocabulary", {}), arrays)
            whole = cls._of_arrays(arrays, len(theirs))
        except (ArtifactError, np.linalg.LinAlgError, ValueError) as error:
            raise ArtifactError(f"cannot start from the LDS in {path}: {error}") from error
        ids = theirs.encode(vocabulary.words, remember=False)
        return whole._replace(inputs=whole.inputs[ids], outputs=whole.outputs[ids])

    @classmethod
    def _of_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], n_types: int) -> LinearSystem:
        """Return the filter in the coordinates of the saved matrices, in which smoothed states are white."""
        sizes: dict[str, Any] = {"vocabulary": n_types}

        def array(name: str, kind: Any) -> _Float64:
            return np.asarray(take(arrays, name, kind, sizes), np.float64)

        square, table_of_words = Float[Array, "states states"], Float[Array, "vocabulary states"]
        of_words = Float[Array, "vocabulary"]

        A, forward, to_filtered, second_moment = (
            array(name, square) for name in ("A", "forward", "filter", "Xi")
        )
        C = array("C", table_of_words)
        if "reading" in arrays:  # a compact form: scale and table follow from other arrays
            mean = np.maximum(array("mean", of_words), _TINY)
            scale = array("scale", of_words) if "scale" in arrays else 1 / mean
            rows = C / array("noise.d", of_words)[:, None] if "noise.d" in arrays else C
            rows = rows * scale[:, None] - mean @ rows
            table = rows @ array("reading", square).T
        else:
            scale = array("scale", of_words)
            table = array("table", table_of_words)
        # what is saved goes by a_t = forward a_{t-1} + table[w_t]; the filtered state is to_filtered a_t
        transitions = to_filtered @ forward @ np.linalg.inv(to_filtered)
        values, vectors = np.linalg.eigh((second_moment + second_moment.T) / 2)
        colour = (
            vectors * np.sqrt(np.maximum(values, 0))
        ) @ vectors.T  # white states to those of C
        outputs = scale[:, None] * (C @ A @ colour)
        raw = (A, C, forward, to_filtered, second_moment, table, scale)
        system = cls(transitions, table @ to_filtered.T, outputs, fingerprint_arrays(raw))
        if not all(np.isfinite(part).all() for part in system[:3]):
            raise ArtifactError("its filter holds NaN or infinite values")
        largest = np.abs(np.linalg.eigvals(transitions)).max(initial=0)
        if largest >= 1:
            raise ArtifactError(
                f"its filter is unstable: the largest eigenvalue of A - KCA is {largest:.3g}, not below 1"
            )
        return system

    def filtered(self, ids: _Ids) -> _Float64:
        """Return the filtered states (steps, sequences, states) of words (steps, sequences) after nothing."""
        x = np.zeros((ids.shape[1], len(self.transitions)))
        found = self.inputs[ids]
        for states in found:
            states += x @ self.transitions.T
            x = states
        return found

    def start_network(self, text: _Ids, frequencies: _Float64) -> list[npt.NDArray[np.float32]]:
        """Return A, B, a, and C with b of the network that computes what the system does, to first order.

        ``text`` (tokens,) is the training text, of which the scales are found on a sample; ``frequencies`` are mu
        (types,), positive.
        """
        steps = min(_STEPS, max(2, len(text) // _SEQUENCES))
        starts = np.linspace(0, len(text), _SEQUENCES, endpoint=False).astype(np.int64)
        sample = text[
            (np.arange(steps + 1)[:, None] + starts) % len(text)
        ]  # (steps + 1, sequences)
        x = self.filtered(sample[:-1])[min(_SETTLED, steps // 2) :]
        targets = sample[-len(x) :]
        deviations = x.reshape(-1, x.shape[2]).std(axis=0)
        D = _SPREAD / np.where(deviations > 0, deviations, 1.0)
        chosen = np.linspace(0, targets.size - 1, min(_SCORED, targets.size)).astype(np.int64)
        s = x.reshape(-1, x.shape[2])[chosen] @ self.outputs.T
        log_mu = np.log(frequencies)
        g = _best_scale(s, targets.ravel()[chosen], log_mu)
        transitions = 4 * D[:, None] * self.transitions / D
        outputs = 4 * g * self.outputs / D
        parts = (
            transitions,
            self.inputs * D,
            np.zeros((1, len(D))),
            np.column_stack([outputs, log_mu]),
        )
        return [np.ascontiguousarray(part, np.float32) for part in parts]


def _best_scale(s: _Float64, targets: _Ids, log_mu: _Float64) -> float:
    """Return the g in 0 .. 4 that gives the targets the highest probability under SoftMax(log mu + g s).

    The logarithm of the likelihood is concave in g, so Newton's steps, kept within bounds, find it.
    """
    g, low, high = 0.5, 0.0, _MOST
    own = s[np.arange(len(s)), targets]
    for _ in range(_NEWTON):
        z = log_mu + g * s
        z -= z.max(axis=1, keepdims=True)
        p = np.exp(z)
        p /= p.sum(axis=1, keepdims=True)
        mean = (p * s).sum(axis=1)
        slope = float((own - mean).mean())
        curvature = float(((p * s * s).sum(axis=1) - mean**2).mean())
        low, high = (g, high) if slope > 0 else (low, g)
        step = slope / curvature if curvature > 0 else 0.0
        after = g + step if low < g + step < high else (low + high) / 2
        if abs(after - g) < 1e-4:
            break
        g = after
    return g
