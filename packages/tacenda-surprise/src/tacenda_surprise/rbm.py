"""Restricted Boltzmann machines for ratings as Surprise algorithms."""

from __future__ import annotations

from typing import Any, Literal, Self

from tacenda_surprise.algorithm import TacendaAlgorithm
from tacenda_surprise.models.base import RatingModel
from tacenda_surprise.models.boltzmann import BoltzmannConfig, ConditionalRBMModel, RBMModel

__all__ = ["RBM", "ConditionalRBM"]

_DEFAULT = BoltzmannConfig()


class RBM(TacendaAlgorithm):
    """A restricted Boltzmann machine with softmax visible units (Mnih 2010, section 5.2).

    It predicts a distribution over the ratings of the scale (``predict_proba``), and errs elsewhere than the
    factorizations do, which makes it worth blending with them.

    Parameters
    ----------
    n_hidden
        Hidden units.
    n_epochs
        Passes over the ratings; at most, with ``early_stopping``.
    orientation
        ``"item"``: an item is a case and its raters are the visible units; ``"user"``: the other
        way round, as in the thesis. The former predicts better; a user of the latter is folded in without
        any fitting.
    ordinal
        Tie the weights of the levels, as ratings are ordered.
    offset
        Give every case a slope of its own.
    gibbs_steps
        Steps of contrastive divergence.
    prediction
        ``"mean_field"`` or ``"exact"``.
    lr_all
        Learning rate.
    reg_all
        Weight of the squared weights.
    lr_decay
        Factor on the rate after every epoch.
    batch_cases
        Cases in a minibatch.
    persistent
        Go on with the Gibbs chain of a case where its last update left it.
    damping
        Ratings at the overall mean that are added to those of every case and visible unit for the
        slopes and the first biases.
    early_stopping
        Hold out part of the ratings, stop when they are predicted worse, and fit anew on all
        ratings for as many epochs as were best.
    validation
        Which part.
    patience
        Epochs without improvement before it stops.
    refit
        Fit anew on all ratings after that.
    more
        ``random_state``, ``verbose``, ``callbacks`` and ``checkpoints`` of `TacendaAlgorithm`.
    """

    _model_class: type[RBMModel] = RBMModel

    def __init__(
        self,
        n_hidden: int = _DEFAULT.n_hidden,
        n_epochs: int = _DEFAULT.n_epochs,
        orientation: Literal["item", "user"] = _DEFAULT.orientation,
        ordinal: bool = _DEFAULT.ordinal,
        offset: bool = _DEFAULT.offset,
        gibbs_steps: int = _DEFAULT.gibbs_steps,
        prediction: Literal["mean_field", "exact"] = _DEFAULT.prediction,
        lr_all: float = _DEFAULT.learning_rate,
        reg_all: float = _DEFAULT.reg,
        lr_decay: float = _DEFAULT.lr_decay,
        batch_cases: int = _DEFAULT.batch_cases,
        persistent: bool = _DEFAULT.persistent,
        damping: float = _DEFAULT.damping,
        early_stopping: bool = False,
        validation: float = 0.05,
        patience: int = _DEFAULT.patience,
        refit: bool = _DEFAULT.refit,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.n_hidden = n_hidden
        self.n_epochs = n_epochs
        self.orientation = orientation
        self.ordinal = ordinal
        self.offset = offset
        self.gibbs_steps = gibbs_steps
        self.prediction = prediction
        self.lr_all = lr_all
        self.reg_all = reg_all
        self.lr_decay = lr_decay
        self.batch_cases = batch_cases
        self.persistent = persistent
        self.damping = damping
        self.early_stopping = early_stopping
        self.validation = validation
        self.patience = patience
        self.refit = refit

    @classmethod
    def thesis(cls, **settings: Any) -> Self:
        """The machine of the thesis: users are cases, levels have weights of their own, no offset."""
        own = BoltzmannConfig.thesis()
        faithful: dict[str, Any] = {
            "orientation": own.orientation,
            "ordinal": own.ordinal,
            "offset": own.offset,
            "reg_all": own.reg,
            "n_epochs": own.n_epochs,
        }
        if cls.conditional:
            faithful["reg_side"] = own.reg_side
        return cls(**{**faithful, **settings})

    def _settings(self) -> dict[str, Any]:
        return {
            "n_hidden": self.n_hidden,
            "n_epochs": self.n_epochs,
            "orientation": self.orientation,
            "ordinal": self.ordinal,
            "offset": self.offset,
            "gibbs_steps": self.gibbs_steps,
            "prediction": self.prediction,
            "learning_rate": self.lr_all,
            "lr_decay": self.lr_decay,
            "reg": self.reg_all,
            "batch_cases": self.batch_cases,
            "persistent": self.persistent,
            "damping": self.damping,
            "validation": self.validation if self.early_stopping else 0.0,
            "patience": self.patience,
            "refit": self.refit,
        }

    def _new_model(self, seed: int) -> RatingModel:
        return self._model_class(seed=seed, **self._settings())


class ConditionalRBM(RBM):
    """A machine that is also told what has been rated (Mnih 2010, eq 5.12): much better than `RBM`.

    With items as cases (the default) it is told who has rated an item; to predict for users of whom only the
    identities of rated items are known, give ``orientation="user"``.

    Parameters
    ----------
    rated
        Items known to be rated beside those of the trainset, as `SideInfo` or (user, item) pairs.
    reg_side
        Weight of the squared weights of identities.
    more
        As in `RBM`.
    """

    _model_class = ConditionalRBMModel
    conditional = True

    def __init__(self, rated: Any = None, reg_side: float = _DEFAULT.reg_side, **more: Any) -> None:
        super().__init__(rated=rated, **more)
        self.reg_side = reg_side

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "reg_side": self.reg_side}
