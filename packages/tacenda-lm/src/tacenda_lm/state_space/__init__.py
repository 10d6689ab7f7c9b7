"""State-space language models: a linear state, a softmax over the next token (Siivola and Honkela)."""

from tacenda_lm.state_space.state_space_lm import StateSpaceLM

__all__ = ["StateSpaceLM"]
