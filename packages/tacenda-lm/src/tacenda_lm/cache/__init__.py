"""Caches: language models that expect the words of the text just read, as components of mixtures."""

from tacenda_lm.cache.neural import NeuralCache
from tacenda_lm.cache.unigram import UnigramCache

__all__ = ["NeuralCache", "UnigramCache"]
