"""Row = later word, column = earlier word: a transposition anywhere turns time around.

In this text a is always followed by b, and b by c, while the other way round nothing is certain: the
paper prints Psi_k once as E[w_{t+k} w_t^T] and once as its transpose.
"""

import numpy as np
import pytest

from tacenda.corpus import Corpus
from tacenda_embeddings import LDS
from tacenda_embeddings.lds import solve_steady_state


@pytest.fixture(scope="module")
def corpus():
    rng = np.random.default_rng(0)
    sentences = []
    for _ in range(800):
        words = []
        for _ in range(rng.integers(2, 6)):
            words += ["a", "b", "c"] if rng.random() < 0.5 else ["x"]
            words += [f"n{i}" for i in rng.integers(0, 5, rng.integers(0, 3))]
        sentences.append(words)
    return Corpus.from_sentences(sentences)


@pytest.fixture(scope="module", params=["subspace", "em"])
def model(request, corpus):
    settings = {"n_states": 4, "kappa": 5.0, "advanced": {"ends": "zero"}, "seed": 3}
    if request.param == "subspace":
        settings |= {"subspace_iterations": 0, "full_iterations": 0}
    return LDS(**settings).fit(corpus)


def prediction(model, before):
    """Whitened expectation of the next word, C A xf, per word type."""
    A, C, _, _ = model.learned.parameters
    state = solve_steady_state(model.learned.parameters)
    encode = model.vocabulary.encode
    xf = np.zeros(len(A))
    for word in encode(before):
        w = -model.learned.mean.copy()
        w[word] += model.learned.scale[word]
        xf = state.F @ xf + state.gain.K_c @ (state.gain.C_hat.T @ w)
    return dict(zip(model.vocabulary.words, C @ A @ xf, strict=True))


def test_the_next_word_is_predicted_and_not_the_last_one(model):
    after_a, after_b = prediction(model, ["x", "a"]), prediction(model, ["a", "b"])
    assert max(after_a, key=after_a.get) == "b"
    assert max(after_b, key=after_b.get) == "c"
    assert after_a["b"] > 3 * abs(after_a["c"])
    assert after_b["c"] > 3 * abs(after_b["a"])


def test_the_future_message_is_made_of_later_words(model, messages_of):
    """Words that announce each other from the right: what stands before b must be a."""
    parameters = model.learned.parameters
    ends_in_b, ends_in_c = map(model.vocabulary.encode, (["x", "x", "b"], ["x", "x", "c"]))
    of_b, of_c = messages_of(
        model._prepare("mean", "cpu")[1], [ends_in_b, ends_in_c], exact_ends=False
    )
    # back to the coordinates of C, and to words
    values, vectors = np.linalg.eigh(model.learned.Xi)
    words = parameters.C @ ((vectors * np.sqrt(values)) @ vectors.T)
    change = dict(
        zip(model.vocabulary.words, words @ (of_b.future[1] - of_c.future[1]), strict=True)
    )
    assert change["a"] > 0 > change["b"]  # b expects a before it, c expects b
    np.testing.assert_allclose(of_b.past[2], of_c.past[2], atol=1e-5)
