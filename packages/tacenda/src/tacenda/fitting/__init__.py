"""The one fitting loop, its batch sources, schedules and checkpoints, and Adam for numpy models."""

from tacenda.fitting.batches import (
    ArrayBatches,
    BatchSource,
    BlockBatches,
    Sweeps,
    fingerprint_arrays,
)
from tacenda.fitting.checkpoint import Resume
from tacenda.fitting.history import DivergenceError, Evaluation, History
from tacenda.fitting.loop import Callback, FitLoop, FitRun, fit
from tacenda.fitting.settings import Cosine, FitSettings, Position, Schedule, StepDecay, WarmUp
from tacenda.fitting.trainer import Adam, State, StepResult, Trainer, set_learning_rate

__all__ = [
    "Adam", "ArrayBatches", "BatchSource", "BlockBatches", "Callback", "Cosine",
    "DivergenceError", "Evaluation", "FitLoop", "FitRun", "FitSettings", "History", "Position",
    "Resume", "Schedule", "State", "StepDecay", "StepResult", "Sweeps", "Trainer", "WarmUp",
    "fingerprint_arrays", "fit", "set_learning_rate",
]  # fmt: skip
