"""What every embedder promises, kept by VarEmbed with each segmenter and by SumEmbed."""

import importlib.util

import pytest

pytest.importorskip("torch", reason="fitting needs torch (tacenda-embeddings[varembed])")

from tacenda_embeddings import SumEmbed, VarEmbed
from tacenda_embeddings.testing import EmbedderTests

TINY = {"width": 6, "hidden": 6, "epochs": 1, "negatives": 16, "batch": 8, "length": 8}


class TestVarEmbed(EmbedderTests):
    def make_model(self):
        return VarEmbed(**TINY)


class TestVarEmbedExactSoftmax(EmbedderTests):
    def make_model(self):
        return VarEmbed(**TINY, softmax="exact", output="probabilities", base=False)


class TestVarEmbedNGrams(EmbedderTests):
    def make_model(self):
        return VarEmbed(**TINY, segmenter="ngrams", start="random", dropout=0.2)


@pytest.mark.skipif(importlib.util.find_spec("morfessor") is None, reason="needs morfessor")
class TestVarEmbedMorfessor(EmbedderTests):
    def make_model(self):
        return VarEmbed(**TINY, segmenter="morfessor", kl="tokens")


class TestSumEmbed(EmbedderTests):
    def make_model(self):
        return SumEmbed(**TINY)
