"""The one fitting loop: batch sources, schedules, checkpoints, optimisers for numpy models."""

from tacit.fitting.batches import ArrayBatches, BlockBatches, RangeBatches, Sweeps
from tacit.fitting.callbacks import Callback
from tacit.fitting.checkpointed import Checkpointed
from tacit.fitting.history import Evaluation, History
from tacit.fitting.loop import FitLoop, fit
from tacit.fitting.meter import DivergenceError
from tacit.fitting.optimizers import SGD, AdaGrad, Adam, Optimizer, clip_gradients, gradient_norm
from tacit.fitting.recorder import Checkpoints
from tacit.fitting.schedules import (
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
from tacit.fitting.settings import FitSettings
from tacit.fitting.trainable import BatchSource, HasParameters, StepResult, Trainable

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
