"""The state-space language model: its recurrence, predictions and training."""

from tacenda_lm.state_space.model import StateSpaceLM, StateSpaceLMAdvanced

__all__ = ["StateSpaceLM", "StateSpaceLMAdvanced"]
