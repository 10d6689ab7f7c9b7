"""Small fitted models, and the entry points of a source tree that is not installed."""

import pytest

import tacenda
from support.plugins import register_missing
from tacenda.datasets import synthetic_text
from tacenda_embeddings import SumEmbed, VarEmbed

SMALL = {"hidden": 8, "negatives": 32, "batch_streams": 8, "unrolled_tokens": 16}
NEED = "fitting needs torch (tacenda-embeddings[varembed])"


def sentences(n=400, seed=1):
    return [list(each.words) for each in synthetic_text.generate(n, seed=seed)]


@pytest.fixture(scope="session")
def texts():
    return sentences()


@pytest.fixture(scope="session")
def corpus(texts):
    return tacenda.Corpus.from_sentences(texts, max_vocabulary=300, digits=True)


@pytest.fixture(scope="session")
def varembed(corpus):
    pytest.importorskip("torch", reason=NEED)
    return VarEmbed(width=8, epochs=1, advanced={**SMALL, "n_morphemes": 200}).fit(corpus)


@pytest.fixture(scope="session")
def sumembed(corpus):
    return SumEmbed(width=8, advanced={"n_morphemes": 200}).fit(corpus)


@pytest.fixture(autouse=True, scope="session")
def _registered():
    register_missing(VarEmbed, SumEmbed)


@pytest.fixture(scope="session")
def spacy_entry_points():
    """Factory, vectors and callbacks where spaCy looks, should this source tree not be the installed one."""
    import spacy

    import tacenda_embeddings.spacy.factories  # noqa: F401 - registers by itself
    from tacenda_embeddings.spacy import vectors

    if vectors.NAME not in spacy.registry.vectors.get_all():
        spacy.registry.vectors.register(vectors.NAME, func=vectors.morphological_vectors)
    for name, func in (
        (vectors.USE, vectors.uses_vectors),
        (vectors.CHECK, vectors.checks_vectors),
    ):
        if name not in spacy.registry.callbacks.get_all():
            spacy.registry.callbacks.register(name, func=func)
