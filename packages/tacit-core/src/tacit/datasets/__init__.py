"""Datasets: where they officially live, where they are here, and readers of them."""

from tacit.datasets import columns, conllu, treebank, word_similarity

__all__ = ["columns", "conllu", "treebank", "word_similarity"]
