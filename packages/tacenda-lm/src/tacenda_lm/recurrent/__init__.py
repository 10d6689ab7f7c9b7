"""The recurrent language model: the network, its start from an LDS, and its training."""

from tacenda_lm.recurrent.model import RecurrentLM

__all__ = ["RecurrentLM"]
