import numpy as np
import pytest
from tacenda_classics.random_indexing import RandomIndexing

from tacenda import Corpus
from tacenda.errors import ConfigurationError
from tacenda_embeddings.testing import check_embedder


def test_it_keeps_what_every_embedder_promises():
    check_embedder(lambda: RandomIndexing(dimensions=16))


def test_words_with_the_same_neighbours_have_the_same_vector():
    corpus = Corpus.from_sentences([["a", "cat", "sat"], ["a", "dog", "sat"]] * 3)
    model = RandomIndexing(dimensions=50).fit(corpus)
    cat, dog, sat = (model.transform([[word]])[0][0, :50] for word in ("cat", "dog", "sat"))
    assert cat @ dog == pytest.approx(1)
    assert cat @ sat < 0.9


def test_context_fades_with_distance():
    model = RandomIndexing(dimensions=8, decay=0.25).fit(Corpus.from_sentences([["a", "b", "c"]]))
    [vectors] = model.transform([["a", "b", "c"]])
    own, context = vectors[:, :8], vectors[:, 8:]
    np.testing.assert_allclose(context[0], own[1] / 4 + own[2] / 16, atol=1e-6)
    np.testing.assert_allclose(context[1], own[0] / 4 + own[2] / 4, atol=1e-6)


@pytest.mark.parametrize("settings", [{"dimensions": 0}, {"decay": 1.0}, {"decay": -0.1}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ConfigurationError):
        RandomIndexing(**settings)
