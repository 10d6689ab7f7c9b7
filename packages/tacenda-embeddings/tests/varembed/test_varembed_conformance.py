"""What every embedder promises, kept by VarEmbed with each segmenter and by SumEmbed."""

import importlib.util

import pytest

pytest.importorskip("torch", reason="fitting needs torch (tacenda-embeddings[varembed])")

from tacenda_embeddings import SumEmbed, VarEmbed
from tacenda_embeddings.testing import EmbedderTests


def tiny(**advanced):
    """Options of a model that is fitted in a moment, with these of the group ``advanced``."""
    small = {"hidden": 6, "negatives": 16, "batch_streams": 8, "unrolled_tokens": 8}
    if advanced.get("softmax") == "exact":
        del small["negatives"]
    return {"width": 6, "epochs": 1, "advanced": {**small, **advanced}}


TINY = tiny()


class TestVarEmbed(EmbedderTests):
    def make_model(self):
        return VarEmbed(**TINY)


class TestVarEmbedExactSoftmax(EmbedderTests):
    def make_model(self):
        return VarEmbed(**tiny(softmax="exact", base=False), output="probabilities")


class TestVarEmbedNGrams(EmbedderTests):
    def make_model(self):
        return VarEmbed(**TINY, segmenter="ngrams", start="random", dropout=0.2)


@pytest.mark.skipif(importlib.util.find_spec("morfessor") is None, reason="needs morfessor")
class TestVarEmbedMorfessor(EmbedderTests):
    def make_model(self):
        return VarEmbed(**tiny(kl="tokens"), segmenter="morfessor")


class TestSumEmbed(EmbedderTests):
    def make_model(self):
        return SumEmbed(**TINY)
