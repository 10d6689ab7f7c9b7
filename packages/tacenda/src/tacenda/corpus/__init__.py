"""Tokenized text: ids on disk or in memory, with sentence offsets and a vocabulary."""

from tacenda.corpus.corpus import Corpus
from tacenda.corpus.text import Text, as_corpus

__all__ = ["Corpus", "Text", "as_corpus"]
