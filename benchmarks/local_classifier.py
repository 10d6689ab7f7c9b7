"""A small local classifier for judging features: one hidden layer, softmax, early stopping on dev.

    h = tanh(x W1 + b1), dropout;  p = softmax(h W2 + b2);  cross-entropy, Adam, minibatches.

float32 numpy throughout, trained by the fitting loop of tacenda.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacenda import fitting

Floats = NDArray[np.float32]
BATCH, LEARNING_RATE = 128, 2e-3


class MLPClassifier:
    """Features (n, width) float to labels (n,) of any kind, early-stopped on a dev set.

    The features are divided by their common root mean square (``scale="global"``), which keeps
    the proportions of the columns, or taken as they are (``"none"``).
    """

    def __init__(
        self,
        hidden: int = 64,
        epochs: int = 15,
        seed: int = 0,
        *,
        dropout: float = 0.0,
        patience: int | None = 5,
        scale: Literal["global", "none"] = "global",
    ) -> None:
        self.hidden, self.epochs, self.seed = hidden, epochs, seed
        self.dropout, self.patience, self.scale = dropout, patience, scale

    def fit(self, X: NDArray[Any], y: Any, X_dev: NDArray[Any], y_dev: Any) -> MLPClassifier:
        """Train; keep the epoch with the fewest dev errors."""
        X = np.asarray(X, np.float32)
        self.classes, targets = np.unique(np.asarray(y), return_inverse=True)
        square = np.einsum("ij,ij->", X, X, dtype=np.float64) / X.size
        # folded into every batch: the training matrix itself is never copied
        scale = 1.0 / max(np.sqrt(square), 1e-12) if self.scale == "global" else 1.0
        self.factor = np.full(X.shape[1], scale, np.float32)
        dev = self._scaled(X_dev), self._ids(y_dev)
        self._network = _Network(self, X.shape[1], len(self.classes), dev)
        source = fitting.ArrayBatches(X, targets.astype(np.int64), batch_size=BATCH, seed=self.seed)
        rate = fitting.Cosine(LEARNING_RATE, epochs=self.epochs)
        settings = fitting.FitSettings(
            epochs=self.epochs, learning_rate=rate, patience=self.patience
        )
        fitting.fit(self._network, source, settings, fitting.FitRun(description="local classifier"))
        return self

    def predict_ids(self, X: NDArray[Any]) -> NDArray[np.int64]:
        return self._network.predict(self._scaled(X))

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Labels, shape (n,)."""
        return self.classes[self.predict_ids(X)]

    def score(self, X: NDArray[Any], y: Any) -> float:
        """Accuracy; a label never seen in training counts as an error."""
        return float(np.mean(self.predict_ids(X) == self._ids(y)))

    def _scaled(self, X: NDArray[Any]) -> Floats:
        scaled: Floats = np.asarray(X, np.float32) * self.factor
        return scaled

    def _ids(self, labels: Any) -> NDArray[np.int64]:
        labels = np.asarray(labels)
        ids = np.searchsorted(self.classes, labels).clip(max=len(self.classes) - 1)
        return np.where(self.classes[ids] == labels, ids, -1)


class _Network(fitting.Trainer):
    """The trainable part: parameters, gradients, optimiser."""

    def __init__(
        self,
        owner: MLPClassifier,
        width: int,
        n_classes: int,
        dev: tuple[Floats, NDArray[np.int64]],
    ) -> None:
        self.owner, self.dev = owner, dev
        self.rng = np.random.default_rng(owner.seed)

        def glorot(rows: int, columns: int) -> Floats:
            bound = (6.0 / (rows + columns)) ** 0.5
            return self.rng.uniform(-bound, bound, (rows, columns)).astype(np.float32)

        self.weights = {
            "W1": glorot(width, owner.hidden),
            "b1": np.zeros(owner.hidden, np.float32),
            "W2": glorot(owner.hidden, n_classes),
            "b2": np.zeros(n_classes, np.float32),
        }
        self.learned = self.weights
        self.optimizer = fitting.Adam(self.weights)

    def step(
        self, batch: tuple[Floats, NDArray[np.int64]], learning_rate: float
    ) -> fitting.StepResult:
        X, y = batch[0], batch[1]
        X = X * self.owner.factor
        w, rows, dropout = self.weights, np.arange(len(y)), self.owner.dropout
        h = np.tanh(X @ w["W1"] + w["b1"])
        keep = np.float32(1.0)
        if dropout:
            keep = (self.rng.random(h.shape, np.float32) >= dropout) * np.float32(1 / (1 - dropout))
        dropped = h * keep
        scores = dropped @ w["W2"] + w["b2"]
        scores -= scores.max(1, keepdims=True)
        p = np.exp(scores)
        total = p.sum(1, keepdims=True)
        loss = float(np.sum(np.log(total[:, 0]) - scores[rows, y], dtype=np.float64))
        p /= total
        p[rows, y] -= 1.0
        p /= np.float32(len(y))
        back = (p @ w["W2"].T) * keep * (1.0 - h * h)
        gradients = {"W1": X.T @ back, "b1": back.sum(0), "W2": dropped.T @ p, "b2": p.sum(0)}
        self.optimizer.update(gradients, learning_rate)
        return fitting.StepResult(loss, len(y))

    def predict(self, X: Floats, block: int = 8192) -> NDArray[np.int64]:
        w = self.weights
        ids = [
            np.argmax(np.tanh(X[i : i + block] @ w["W1"] + w["b1"]) @ w["W2"] + w["b2"], axis=1)
            for i in range(0, len(X), block)
        ]
        return np.concatenate(ids) if ids else np.zeros(0, np.int64)

    def evaluate(self) -> float:
        return float(np.mean(self.predict(self.dev[0]) != self.dev[1]))
