"""`LinearSystem`: the filter of a fitted LDS, as the network that a `RecurrentLM` starts from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacenda import artifact
from tacenda.arrays import Array, Float, take
from tacenda.artifact.precision import restore
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda.fitting import fingerprint_arrays
from tacenda.vocabulary import Vocabulary
from tacenda_lm.recurrent.network import SCORES_PER_BLOCK, Network
from tacenda_lm.sequences import Float64, Integers

_SD_OF_Z = 0.5  # standard deviation of the elements of z: small values keep sigma where it is nearly linear
_MIN_MEAN = 1e-30  # least square root of the frequency of a word
# the sample of the text from which D and g are found
_N_SEQUENCES, _MAX_STEPS = 32, 200
_N_SCORED = 1024  # words of it that g is found by
_SETTLING_STEPS = 20  # after which a filter has forgotten that it began with nothing
_NEWTON_STEPS = 20
_MAX_SCALE = 4.0  # the largest g


class LinearSystem(NamedTuple):
    """The filter of a fitted LDS over the words of a vocabulary, float64: the start of a `RecurrentLM` (section 7.4).

    The filter of an LDS with A, C and gain K, of words w_t centered on their frequencies mu and scaled by W, is a
    recurrent network without its two nonlinearities (equations 4, 18 and 19):

        x_t = (A - K C A) x_{t-1} + K W (w_t - mu),    E[w_{t+1} | x_t] = mu + W^{-1} C A x_t,    W = diag(mu^{-1/2})

    Around zero sigma(z) - 1/2 = z / 4 and, with b = log mu, SoftMax(b + s)_i = mu_i (1 + s_i) up to a constant, to
    first order. So the network that computes the same to first order, with z_t = D x_t for a diagonal D, is

        A_rnn = 4 D (A - K C A) D^{-1},    B_rnn = D K W (I - mu),    a = 0
        C_rnn = 4 g W C A D^{-1},          b = log mu

    D makes z small enough for the first approximation and large enough to learn. The second approximation does not hold
    for rare words, whose predicted frequencies are many times mu_i or negative: the number g is chosen to make a sample
    of the training text most probable, of which the logarithm of the likelihood is a concave function. The paper has
    neither D, g, nor biases.
    """

    transitions: Float64  # A - K C A (states, states)
    inputs: Float64  # K W (w - mu) of every word w (types, states)
    outputs: Float64  # W C A (types, states)
    source: str  # digest of the arrays of the LDS

    @classmethod
    def load(cls, path: str, vocabulary: Vocabulary) -> LinearSystem:
        """Read a saved LDS, whose plugin is not needed; words that it does not know get the rows of its ``<unk>``.

        Raises ConfigurationError if the folder holds another model, and ArtifactError if it is damaged.
        """
        saved = artifact.read(path)
        if (saved.kind, saved.name) != ("embedders", "lds"):
            raise ConfigurationError(
                f"RecurrentLM: lds must be the folder of an LDS, and {path} holds a model {saved.name!r}; "
                "make one with `tacenda embed fit --model lds`"
            )
        try:
            arrays, _ = restore(saved.arrays)
            config = saved.config.get("vocabulary", {})
            theirs = Vocabulary.from_arrays(config, arrays, at_once=True)
            whole = cls._from_arrays(arrays, len(theirs))
        except (ArtifactError, np.linalg.LinAlgError, ValueError) as error:
            raise ArtifactError(f"cannot start from the LDS in {path}: {error}") from error
        ids = theirs.encode(vocabulary.words, remember=False)
        return whole._replace(inputs=whole.inputs[ids], outputs=whole.outputs[ids])

    @classmethod
    def _from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], n_types: int) -> LinearSystem:
        """Return the filter in the coordinates of the saved matrices, in which smoothed states are white."""
        sizes: dict[str, Any] = {"vocabulary": n_types}

        def read(name: str, dimensions: str) -> Float64:
            return np.asarray(take(arrays, name, Float[Array, dimensions], sizes), np.float64)

        square, rows_of_words = "states states", "vocabulary states"
        A, forward, to_filtered, second_moment = (
            read(name, square) for name in ("A", "forward", "filter", "Xi")
        )
        C = read("C", rows_of_words)
        if "reading" in arrays:  # a compact form: scale and table follow from other arrays
            mean = np.maximum(read("mean", "vocabulary"), _MIN_MEAN)
            scale = read("scale", "vocabulary") if "scale" in arrays else 1 / mean
            rows = C / read("noise.d", "vocabulary")[:, None] if "noise.d" in arrays else C
            rows = rows * scale[:, None] - mean @ rows
            table = rows @ read("reading", square).T
        else:
            scale = read("scale", "vocabulary")
            table = read("table", rows_of_words)
        # the saved recurrence is a_t = forward a_{t-1} + table[w_t], with the filtered state to_filtered a_t
        transitions = to_filtered @ forward @ np.linalg.inv(to_filtered)
        values, vectors = np.linalg.eigh((second_moment + second_moment.T) / 2)
        # from white states to those that C takes
        color = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        outputs = scale[:, None] * (C @ A @ color)
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

    def filter_words(self, ids: Integers) -> Float64:
        """Return the filtered states (steps, sequences, states) after words (steps, sequences), from zero."""
        x = np.zeros((ids.shape[1], len(self.transitions)))
        filtered = self.inputs[ids]
        for states in filtered:
            states += x @ self.transitions.T
            x = states
        return filtered

    def start_network(self, text: Integers, frequencies: Float64) -> Network:
        """Return the network that computes the same as this system to first order.

        ``text`` (tokens,) is the training text, a sample of which gives the scales D and g; ``frequencies`` (types,)
        are mu, positive.
        """
        steps = min(_MAX_STEPS, max(2, len(text) // _N_SEQUENCES))
        starts = np.linspace(0, len(text), _N_SEQUENCES, endpoint=False).astype(np.int64)
        sample = text[(np.arange(steps + 1)[:, None] + starts) % len(text)]
        x = self.filter_words(sample[:-1])[min(_SETTLING_STEPS, steps // 2) :]
        targets, x = sample[-len(x) :].ravel(), x.reshape(-1, x.shape[2])
        deviations = x.std(axis=0)
        D = _SD_OF_Z / np.where(deviations > 0, deviations, 1.0)
        scored = np.linspace(0, len(targets) - 1, min(_N_SCORED, len(targets))).astype(np.int64)
        log_mu = np.log(frequencies)
        g = _find_scale(x[scored], self.outputs, targets[scored], log_mu)
        A, B = 4 * D[:, None] * self.transitions / D, self.inputs * D
        C = 4 * g * self.outputs / D
        parts = A, B, np.zeros((1, len(D))), np.column_stack([C, log_mu])
        return Network(*(np.ascontiguousarray(part, np.float32) for part in parts))


def _find_scale(x: Float64, outputs: Float64, targets: Integers, log_mu: Float64) -> float:
    """Find the g in 0 .. 4 that gives the targets (rows,) the highest probability under SoftMax(log mu + g s).

    The rows of s are ``outputs`` (types, states) times those of ``x`` (rows, states). The logarithm of the likelihood
    is concave in g: Newton steps within bounds find its peak.
    """
    g, low, high = 0.5, 0.0, _MAX_SCALE
    rows = max(1, SCORES_PER_BLOCK // len(outputs))
    slopes, curvatures = np.empty((2, len(x)))
    for _ in range(_NEWTON_STEPS):
        for begin in range(0, len(x), rows):
            block = slice(begin, begin + rows)
            s = x[block] @ outputs.T
            p = g * s
            p += log_mu
            p -= p.max(axis=1, keepdims=True)
            np.exp(p, out=p)
            p /= p.sum(axis=1, keepdims=True)
            p *= s
            mean = p.sum(axis=1)
            slopes[block] = s[np.arange(len(s)), targets[block]] - mean
            p *= s
            curvatures[block] = p.sum(axis=1) - mean**2
        slope, curvature = float(slopes.mean()), float(curvatures.mean())
        low, high = (g, high) if slope > 0 else (low, g)
        new = g + slope / curvature if curvature > 0 else g
        if not low < new < high:
            new = (low + high) / 2
        if abs(new - g) < 1e-4:
            break
        g = new
    return g
