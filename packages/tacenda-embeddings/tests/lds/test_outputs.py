"""What the vectors are made of."""

import numpy as np
import pytest

from tacenda.corpus import Corpus
from tacenda.datasets import synthetic_text
from tacenda.kernels.sequences import unit_rows
from tacenda_embeddings import LDS
from tacenda_embeddings.lds.smoother import WIDTHS, balance
from tacenda_embeddings.settings import LDS_OUTPUTS


@pytest.fixture(scope="module")
def sentences():
    return [list(s.words) for s in synthetic_text.generate(250, seed=1)]


@pytest.fixture(scope="module")
def model(sentences):
    corpus = Corpus.from_sentences(sentences, max_vocabulary=150)
    small = {"n_states": 6, "subspace_iterations": 5, "full_iterations": 1}
    return LDS(**small, advanced={"row_norm_power": 0.0}).fit(corpus)


@pytest.fixture(scope="module")
def parts(model, sentences, messages_of):
    """own, past, future (tokens, 6) of the first ten sentences."""
    ids = [model.vocabulary.encode(sentence) for sentence in sentences[:10]]
    found = messages_of(model._prepare("mean", "cpu")[1], ids)
    return [np.concatenate(part) for part in zip(*found, strict=True)]


def vectors(model, sentences, output, **settings):
    return np.concatenate(model.with_output(output, **settings).transform(sentences[:10]))


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_every_output_has_its_width(model, sentences):
    assert set(WIDTHS) == set(LDS_OUTPUTS)
    for output in LDS_OUTPUTS:
        other = model.with_output(output)
        assert other.width == 6 * WIDTHS[output]
        for array, sentence in zip(other.transform(sentences[:5]), sentences[:5], strict=True):
            assert array.shape == (len(sentence), other.width)
            assert array.dtype == np.float32


def test_outputs_by_their_definitions(model, sentences, parts):
    own, past, future = parts
    g = 2.5
    expected = {
        "own": unit(own),
        "mean": unit(own + past + future),
        "weighted_mean": unit(g * own + past + future),
        "own_context": np.concatenate([unit(own), unit(past + future)], axis=1),
        "own_past_future": unit(np.concatenate([g * own, past, future], axis=1)),
    }
    for output, value in expected.items():
        found = vectors(model, sentences, output, own_weight=g)
        np.testing.assert_allclose(found, value, atol=2e-5)


def test_the_paper_weighs_nothing(model, sentences):
    """The mean is the weighted mean of weight 1, and knows nothing of settings for the others."""
    mean = vectors(model, sentences, "mean", own_weight=7.0, row_norm_power=1.0)
    weighted = vectors(model, sentences, "weighted_mean", own_weight=1.0)
    np.testing.assert_allclose(mean, weighted, atol=1e-6)


def test_filtered_sees_no_later_word(model, sentences, monkeypatch):
    [long] = [s for s in sentences if len(s) > 8][:1]
    whole, prefix = model.transform([long, long[:5]], output="mean")
    assert np.abs(whole[:5] - prefix).max() > 1e-3
    # nor does it scan the later words
    monkeypatch.setattr(model._prepare("filtered", "cpu")[1], "_backward", None)
    whole, prefix = model.transform([long, long[:5]], output="filtered")
    np.testing.assert_allclose(whole[:5], prefix, atol=1e-5)


def test_own_is_static(model):
    [one, two] = model.transform([["x", "y"], ["y", "z", "x"]], output="own")
    np.testing.assert_array_equal(one[0], two[2])
    np.testing.assert_array_equal(one[1], two[0])


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 1.5])
def test_balanced_rows_have_their_norm_to_the_remaining_power(power, rng):
    table = (rng.standard_normal((30, 4)) * np.geomspace(0.01, 100, 30)[:, None]).astype(np.float32)
    rows = balance(table, power)
    assert rows.dtype == np.float32
    norms, before = np.linalg.norm(rows, axis=1), np.linalg.norm(table, axis=1)
    np.testing.assert_allclose(unit(rows), unit(table), atol=1e-6)
    np.testing.assert_allclose(norms / norms[0], (before / before[0]) ** (1 - power), rtol=1e-4)


def test_a_row_without_length_stays(rng):
    table = np.zeros((3, 2), np.float32)
    np.testing.assert_array_equal(balance(table, 1.0), table)
    np.testing.assert_array_equal(unit_rows(table.copy()), table)


def test_another_output_shares_the_parameters(model, sentences):
    other = model.with_output("own", own_weight=1.0)
    assert other.learned is model.learned
    assert other.figures == model.figures
    assert other.likelihood_gain == model.likelihood_gain
    assert other.settings.output == "own"
    assert model.settings.output == "own_past_future"


def test_balanced_rows_change_the_vectors_and_not_the_model(model, sentences, messages_of):
    heavy = model.with_output("weighted_mean", row_norm_power=1.0)
    plain = model.with_output("weighted_mean")
    ids = [model.vocabulary.encode(sentence) for sentence in sentences[:3]]
    [one], [other] = heavy.transform(sentences[:1]), plain.transform(sentences[:1])
    assert np.abs(one - other).max() > 1e-2
    messages = [messages_of(each._prepare("mean", "cpu")[1], ids) for each in (heavy, plain)]
    for one, other in zip(*messages, strict=True):
        np.testing.assert_array_equal(one.past, other.past)
