"""The one fitting loop: batch sources, schedules, checkpoints, optimisers for numpy models."""

from tacenda.fitting.batches import ArrayBatches, BlockBatches, RangeBatches, Sweeps
from tacenda.fitting.callbacks import Callback
from tacenda.fitting.checkpointed import Checkpointed
from tacenda.fitting.history import Evaluation, History
from tacenda.fitting.loop import FitLoop, fit
from tacenda.fitting.meter import DivergenceError
from tacenda.fitting.optimizers import SGD, AdaGrad, Adam, Optimizer, clip_gradients, gradient_norm
from tacenda.fitting.recorder import Checkpoints
from tacenda.fitting.schedules import (
    Constant,
    Cosine,
    InverseDecay,
    Plateau,
    Position,
    Schedule,
    StepDecay,
    WarmUp,
    as_schedule,
)
from tacenda.fitting.settings import FitSettings
from tacenda.fitting.trainable import BatchSource, HasParameters, StepResult, Trainable

__all__ = [
    "SGD",
    "AdaGrad",
    "Adam",
    "ArrayBatches",
    "BatchSource",
    "BlockBatches",
    "Callback",
    "Checkpointed",
    "Checkpoints",
    "Constant",
    "Cosine",
    "DivergenceError",
    "Evaluation",
    "FitLoop",
    "FitSettings",
    "HasParameters",
    "History",
    "InverseDecay",
    "Optimizer",
    "Plateau",
    "Position",
    "RangeBatches",
    "Schedule",
    "StepDecay",
    "StepResult",
    "Sweeps",
    "Trainable",
    "WarmUp",
    "as_schedule",
    "clip_gradients",
    "fit",
    "gradient_norm",
]
