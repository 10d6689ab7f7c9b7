"""What every embedder promises, kept by VarEmbed with each segmenter and by SumEmbed."""

import importlib.util

import pytest

pytest.importorskip("torch", reason="fitting needs torch (tacenda-embeddings[varembed])")

from support.varembed import tiny
from tacenda_embeddings import SumEmbed, VarEmbed
from tacenda_embeddings.testing import check_embedder

HAS_MORFESSOR = importlib.util.find_spec("morfessor") is not None
CASES = {
    "VarEmbed": (VarEmbed, tiny()),
    "exact softmax": (VarEmbed, {**tiny(softmax="exact", base=False), "output": "probabilities"}),
    "n-grams": (VarEmbed, {**tiny(), "segmenter": "ngrams", "start": "random"}),
    "Morfessor": (VarEmbed, {**tiny(kl="tokens"), "segmenter": "morfessor"}),
    "SumEmbed": (SumEmbed, {"width": 6}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_model_of_word_vectors_is_a_sound_embedder(case):
    if case == "Morfessor" and not HAS_MORFESSOR:
        pytest.skip("needs morfessor")
    model, options = CASES[case]
    check_embedder(lambda: model(**options))
