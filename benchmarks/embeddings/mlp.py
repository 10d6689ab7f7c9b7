"""The local classifier: one hidden layer, Adam, stopped on the dev set, best weights kept."""

from __future__ import annotations

import numpy as np
import torch


class MLPClassifier:
    """`x` (tokens, width) -> ReLU of `hidden` units with dropout -> class scores.

    Minibatches of 128 tokens. After two passes without a better dev accuracy the step shrinks to
    0.3 of itself; after `patience` such passes training ends.
    """

    def __init__(
        self, hidden: int = 64, seed: int = 0, max_passes: int = 60, patience: int = 5
    ) -> None:
        self.hidden, self.seed = hidden, seed
        self.max_passes, self.patience = max_passes, patience

    def fit(self, x: np.ndarray, y: np.ndarray, dev_x: np.ndarray, dev_y: np.ndarray) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(self.seed)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(x.shape[1], self.hidden),
            torch.nn.ReLU(),
            torch.nn.Dropout(0.1),
            torch.nn.Linear(self.hidden, int(y.max()) + 1),
        )
        optimizer = torch.optim.Adam(self.net.parameters(), lr=2e-3)
        inputs, targets = torch.from_numpy(x), torch.from_numpy(y.astype(np.int64))
        best, best_weights, since = -1.0, self._weights(), 0
        for _ in range(self.max_passes):
            if since == 2:  # a plateau: smaller steps before giving up
                for group in optimizer.param_groups:
                    group["lr"] *= 0.3
            self.net.train()
            order = torch.randperm(len(inputs))
            for batch in order.split(128):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(
                    self.net(inputs[batch]), targets[batch]
                ).backward()
                optimizer.step()
            accuracy = float((self.predict(dev_x) == dev_y).mean())
            since = since + 1
            if accuracy > best:
                best, best_weights, since = accuracy, self._weights(), 0
            if since >= self.patience:
                break
        self.net.load_state_dict(best_weights)

    def _weights(self) -> dict[str, torch.Tensor]:
        return {name: value.clone() for name, value in self.net.state_dict().items()}

    @torch.no_grad()
    def predict(self, x: np.ndarray) -> np.ndarray:
        self.net.eval()
        parts = [self.net(part).argmax(dim=1) for part in torch.from_numpy(x).split(16384)]
        return torch.cat(parts).numpy()
