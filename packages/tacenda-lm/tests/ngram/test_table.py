"""A damaged table is refused before a look-up can leave it."""

import dataclasses

import numpy as np
import pytest

from tacenda.errors import ArtifactError
from tacenda_lm import KneserNey, State


@pytest.fixture(scope="module")
def model():
    return KneserNey(order=3).fit(["a b c", "b c a", "c", "a b"])


def test_the_words_of_every_order_are_those_of_the_text(model):
    marked = [("</s>", *line.split(), "</s>") for line in ("a b c", "b c a", "c", "a b")]
    for n in (1, 2, 3):
        rows = {tuple(model.vocabulary.decode(row)) for row in model.table.words_of(n)}
        expected = {line[i : i + n] for line in marked for i in range(len(line) - n + 1)}
        assert rows == (expected | {("<unk>",)} if n == 1 else expected)


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("starts", lambda a: changed(a, 0, 1)),
        ("starts", lambda a: changed(a, -1, a[-1] + 1)),
        ("starts", lambda a: changed(a, 1, a[1] + 1)),
        ("starts", lambda a: a[:1]),
        ("first", lambda a: changed(a, 2, a[-1] + 5)),
        ("first", lambda a: changed(a, 0, 0)),
        ("first", lambda a: changed(a, -1, a[-1] - 1)),
        ("first", lambda a: a[:-1]),
        ("word", lambda a: changed(a, -1, 99)),
        ("word", lambda a: changed(a, -1, -1)),
        ("word", lambda a: changed(a, 0, 1)),
        ("word", lambda a: np.concatenate([a[:5], a[:4:-1]])),
        ("log_prob", lambda a: changed(a, 3, 0.5)),
        ("log_prob", lambda a: changed(a, 3, np.inf)),
        ("backoff", lambda a: a[1:]),
        ("backoff", lambda a: changed(a, 0, np.nan)),
        ("log_prob", np.zeros_like),
        ("log_prob", lambda a: changed(a, 0, a[0] - 2)),
        ("log_prob", lambda a: changed(a, -1, a[-1] - 2)),
        ("backoff", np.zeros_like),
        ("backoff", lambda a: changed(a, 2, a[2] + 1)),
        ("backoff", lambda a: changed(a, -1, 5)),
    ],
)
def test_every_damage_is_refused(model, name, damage):
    artifact = model.to_artifact()
    spoilt = {**artifact.arrays, name: damage(artifact.arrays[name])}
    with pytest.raises(ArtifactError):
        KneserNey.from_artifact(dataclasses.replace(artifact, arrays=spoilt))


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_is_refused_or_harmless(model, seed):
    """Whatever integers an artefact holds, loading it refuses them or no look-up leaves the table."""
    rng = np.random.default_rng(seed)
    artifact = model.to_artifact()
    arrays = {name: array.copy() for name, array in artifact.arrays.items()}
    for name in ("starts", "first", "word"):
        places = rng.integers(len(arrays[name]), size=rng.integers(0, 3))
        arrays[name][places] += rng.integers(-3, 4, len(places)).astype(arrays[name].dtype)
    try:
        spoilt = KneserNey.from_artifact(dataclasses.replace(artifact, arrays=arrays))
    except ArtifactError:
        return
    assert np.isfinite(spoilt.score_batch(["a b c", "c b a", "x"])).all()


@pytest.mark.parametrize("order", [2, 3, 5])
def test_a_probability_above_one_is_found_wherever_it_is(order):
    """Against all distributions: one back-off at a time is raised, of models that list words of every probability."""
    rng = np.random.default_rng(order)
    text = [" ".join(rng.choice(list("aaaaaabbcdefghij"), 6)) for _ in range(30)]
    model = KneserNey(order=order, smoothing="good_turing").fit(text)
    table = model.table
    contexts = [row for n in range(1, order) for row in table.words_of(n).tolist()]
    states = [State(()), *(State(tuple(row)) for row in contexts)]
    n_found = 0
    for place in range(len(table.backoff)):
        backoff = changed(table.backoff, place, table.backoff[place] + rng.uniform(0, 6))
        model._table = dataclasses.replace(table, backoff=backoff)
        model._table.__dict__.pop("records", None)
        rows = model.log_probs(states)
        found = model._table.sums().above_one
        assert (found is not None) == (rows.max() > 1e-3)
        if found is not None:
            n_found += 1
            context, word = found
            assert model.log_prob([State(tuple(context))], [word])[0] > 1e-3
    assert 0 < n_found < len(table.backoff)
