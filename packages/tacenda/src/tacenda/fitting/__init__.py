"""The one fitting loop, its batch sources, schedules and checkpoints, and Adam for numpy models."""

from tacenda.fitting.adam import Adam
from tacenda.fitting.batches import ArrayBatches, BlockBatches, Sweeps, fingerprint_arrays
from tacenda.fitting.checkpoint import Checkpoints, Resume
from tacenda.fitting.history import DivergenceError, Evaluation, History
from tacenda.fitting.loop import Callback, FitLoop, FitSettings, fit
from tacenda.fitting.schedules import Cosine, Position, Schedule, StepDecay, WarmUp, as_schedule
from tacenda.fitting.trainable import BatchSource, HasParameters, State, StepResult, Trainable

__all__ = [
    "Adam",
    "ArrayBatches",
    "BatchSource",
    "BlockBatches",
    "Callback",
    "Checkpoints",
    "Cosine",
    "DivergenceError",
    "Evaluation",
    "FitLoop",
    "FitSettings",
    "HasParameters",
    "History",
    "Position",
    "Resume",
    "Schedule",
    "State",
    "StepDecay",
    "StepResult",
    "Sweeps",
    "Trainable",
    "WarmUp",
    "as_schedule",
    "fingerprint_arrays",
    "fit",
]
