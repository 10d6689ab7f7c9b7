"""Biases alone as a Surprise algorithm."""

from __future__ import annotations

from typing import Any, Literal

from tacenda_surprise.algorithm import TacendaAlgorithm
from tacenda_surprise.models.base import RatingModel
from tacenda_surprise.models.bias import BiasConfig, BiasModel

__all__ = ["BiasOnly"]

_DEFAULT = BiasConfig()


class BiasOnly(TacendaAlgorithm):
    """The mean rating and the biases of user and item: what everything else should be better than.

    Parameters
    ----------
    biases
        ``"both"``, ``"items"``, ``"users"``, or ``"none"``: the mean of all ratings.
    n_epochs
        Times that items and users are gone through.
    reg_u
        Ratings at the expected value that are added to those of every user.
    reg_i
        To those of every item.
    more
        ``random_state``, ``verbose``, ``callbacks`` and ``checkpoints`` of `TacendaAlgorithm`.
    """

    def __init__(
        self,
        biases: Literal["both", "items", "users", "none"] = _DEFAULT.biases,
        n_epochs: int = _DEFAULT.n_epochs,
        reg_u: float = _DEFAULT.reg_users,
        reg_i: float = _DEFAULT.reg_items,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.biases = biases
        self.n_epochs = n_epochs
        self.reg_u = reg_u
        self.reg_i = reg_i

    def _new_model(self, seed: int) -> RatingModel:
        return BiasModel(
            biases=self.biases,
            n_epochs=self.n_epochs,
            reg_users=self.reg_u,
            reg_items=self.reg_i,
            seed=seed,
        )
