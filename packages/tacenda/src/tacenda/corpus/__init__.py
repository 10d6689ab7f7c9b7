"""Tokenized text: ids on disk or in memory, with sentence offsets and a vocabulary."""

from tacenda.corpus.corpus import Corpus

__all__ = ["Corpus"]
