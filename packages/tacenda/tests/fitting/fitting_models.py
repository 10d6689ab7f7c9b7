"""Small models for the tests of the fitting loop, and a worker process that may be killed."""

import json
import os
import signal
import sys
import time

import numpy as np

from tacenda.fitting import (
    Adam,
    ArrayBatches,
    Cosine,
    FitRun,
    FitSettings,
    StepResult,
    Trainer,
    WarmUp,
    fit,
)


def clusters(n=400, seed=0, width=5, classes=3):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(classes, width))
    y = rng.integers(classes, size=n)
    X = centres[y] + rng.normal(size=(n, width))
    return X.astype(np.float32), y


class SoftmaxRegression(Trainer):
    """Multinomial logistic regression; dropout on the features gives it random state."""

    def __init__(self, dev=None, width=5, classes=3, dropout=0.2, seed=0, decay=1e-3):
        self.rng = np.random.default_rng(seed)
        self.weights = {"W": self.rng.normal(size=(width, classes)) * 0.01, "b": np.zeros(classes)}
        self.optimizer = Adam(self.weights, weight_decay={"W": decay})
        self.learned = {"weights": self.weights}
        self.rest = {"optimizer": self.optimizer, "rng": self.rng}
        self.dropout, self.dev = dropout, dev
        self.rates = []

    def _probabilities(self, X):
        scores = X @ self.weights["W"] + self.weights["b"]
        p = np.exp(scores - scores.max(1, keepdims=True))
        return p / p.sum(1, keepdims=True)

    def step(self, batch, learning_rate):
        self.rates.append(learning_rate)
        X, y = batch
        X = X * (self.rng.random(X.shape) >= self.dropout)
        p = self._probabilities(X)
        loss = -np.log(p[np.arange(len(y)), y]).sum()
        p[np.arange(len(y)), y] -= 1.0
        gradients = {"W": X.T @ p / len(y), "b": p.mean(0)}
        self.optimizer.update(gradients, learning_rate)
        return StepResult(loss, len(y), np.linalg.norm(gradients["W"]))

    def evaluate(self):
        if self.dev is None:
            return None
        X, y = self.dev
        return float(-np.log(self._probabilities(X)[np.arange(len(y)), y]).mean())


def numpy_model():
    return SoftmaxRegression(dev=clusters(100, seed=1))


def torch_model():
    """An LSTM tagger with dropout, Adam and gradient clipping: predicts the parity so far."""
    import torch

    from tacenda.fitting import set_learning_rate

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(4, 6)
            self.lstm = torch.nn.LSTM(6, 8, batch_first=True)
            self.out = torch.nn.Linear(8, 2)

        def forward(self, ids):
            hidden = torch.nn.functional.dropout(self.embed(ids), 0.2, self.training)
            return self.out(self.lstm(hidden)[0])

    class Parity(Trainer):
        def __init__(self, module, optimizer):
            self.module, self.optimizer = module, optimizer
            self.learned = {"module": module}
            self.rest = {"optimizer": optimizer, "generator": torch.default_generator}

        def loss(self, batch):
            ids = torch.from_numpy(batch[0])
            target = ids.cumsum(1) % 2
            scores = self.module(ids).flatten(0, 1)
            return torch.nn.functional.cross_entropy(scores, target.flatten(), reduction="sum")

        def step(self, batch, learning_rate):
            self.module.train()
            set_learning_rate(self.optimizer, learning_rate)
            self.optimizer.zero_grad()
            loss, units = self.loss(batch), batch[0].size
            (loss / units).backward()
            norm = torch.nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
            self.optimizer.step()
            return StepResult(loss.detach(), units, norm)

        def evaluate(self):
            self.module.eval()
            ids = sequences(60, seed=5)
            with torch.no_grad():
                return float(self.loss((ids,))) / ids.size

    torch.set_num_threads(1)
    torch.manual_seed(3)
    network = Network()
    groups = [
        {"params": network.embed.parameters(), "scale": 0.5},
        {"params": [*network.lstm.parameters(), *network.out.parameters()]},
    ]
    return Parity(network, torch.optim.Adam(groups, lr=1.0))


def sequences(n=160, seed=0):
    return np.random.default_rng(seed).integers(4, size=(n, 7))


def settings(**changes):
    plain = {
        "epochs": 4,
        "learning_rate": WarmUp(Cosine(0.3, epochs=4, floor=1e-4), steps=5),
        "patience": 50,
    }
    return FitSettings(**(plain | changes))


def run(folder, kind="numpy", **hooks):
    """A fit of 4 epochs of 10 steps, a checkpoint every 3 steps."""
    if kind == "torch":
        model, data = torch_model(), (sequences(),)
        source = ArrayBatches(*data, batch_size=16, seed=4)
        chosen = settings(learning_rate=WarmUp(Cosine(0.02), steps=5))
    else:
        model, source, chosen = numpy_model(), ArrayBatches(*clusters(), batch_size=40), settings()
    if hooks.get("prepare"):
        hooks["prepare"](model)
    how = FitRun(folder, every_steps=3, every_seconds=None)
    return model, fit(model, source, chosen, how)


def _kill():
    os.kill(os.getpid(), signal.SIGKILL)


def main(kind, folder, result, kill_at, kill_in):
    """Runs to the end and saves the outcome, or dies by SIGKILL at the call number ``kill_at``.

    ``kill_in``: "step" (of the model), "files" (after a tensor file, before its manifest),
    "manifest" (after the manifest, before old files are removed) or "slow" (steps take time).
    """
    from tacenda import store
    from tacenda.fitting import checkpoint

    calls = 0

    def count_and_kill():
        nonlocal calls
        calls += 1
        if calls == int(kill_at):
            _kill()

    def prepare(model):
        step = model.step

        def dying(batch, rate):
            if kill_in == "slow":
                time.sleep(0.05)
            elif kill_in == "step":
                count_and_kill()
            return step(batch, rate)

        model.step = dying

    replace = store.write_file

    def dying_replace(path, data):
        replace(path, data)
        if kill_in == ("manifest" if path.name == checkpoint.MANIFEST else "files"):
            count_and_kill()

    store.write_file = dying_replace
    model, history = run(folder, kind, prepare=prepare)
    np.savez(result, history=np.array(json.dumps(history.as_dict())), **model.state())


if __name__ == "__main__":
    main(*sys.argv[1:])
