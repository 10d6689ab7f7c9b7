"""Arrays declared once: what is refused, and what survives saving, copying and moving."""

from __future__ import annotations

import pickle
from typing import Annotated

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda import array_ops
from tacenda.arrays import (
    Array,
    Arrays,
    Bool,
    Float,
    Float32,
    Float64,
    Int,
    Int32,
    Int64,
    Offsets,
    Probabilities,
    ascending,
    at_least,
    below,
    named,
    over,
    positive,
    take,
    up_to,
)
from tacenda.errors import ArtifactError
from tacenda.fitting.trainer import unpack


class Noise(Arrays):
    d: Float64[Array, "types", positive]


class Parameters(Arrays):
    words: Float32[Array, "types width"]
    codes: Int32[Array, "nodes", below("types")]
    starts: Probabilities[Array, "classes states"]
    cuts: Offsets[Array, "classes nodes"]
    noise: Noise
    label: str
    far: Float32[Array, "distant width"] | None
    known: Bool[Array, "types"] | None = None


def made():
    rng = np.random.default_rng(0)
    return {
        "words": rng.standard_normal((5, 3)).astype(np.float32),
        "codes": np.array([0, 4], np.int32),
        "starts": np.full((2, 4), 0.25, np.float32),
        "cuts": np.array([0, 1, 2]),
        "noise.d": np.ones(5),
    }


def parameters(**more):
    return Parameters.from_arrays(made() | more, types=5, label="one")


def test_what_is_as_declared_is_taken_without_a_copy():
    arrays = made()
    found = Parameters.from_arrays(arrays, types=5, label="one")
    assert found.words is arrays["words"]
    assert found.noise.d is arrays["noise.d"]
    assert (found.far, found.known, found.label) == (None, None, "one")
    assert found.to_arrays() == arrays


def test_a_prefix_is_put_before_all_names():
    saved = parameters().to_arrays("model.")
    assert set(saved) == {f"model.{name}" for name in made()}
    found = Parameters.from_arrays(saved, "model.", label="one")
    np.testing.assert_array_equal(found.noise.d, np.ones(5))


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("words", np.zeros((5, 3)), "is float64 and must be float32"),
        ("words", np.zeros((4, 3), "f"), r"has shape \(4, 3\) and must have \(types=5, width"),
        ("words", np.zeros(5, "f"), r"has shape \(5,\)"),
        ("words", np.full((5, 3), np.nan, "f"), "holds NaN, infinite or implausibly"),
        ("words", np.full((5, 3), 1e16, "f"), "holds NaN, infinite or implausibly"),
        ("far", np.zeros((2, 4), "f"), r"has shape \(2, 4\) .* \(distant, width=3\)"),
        ("codes", np.array([0, 5], "i4"), "holds 0 to 5, and must hold numbers from 0 to 4"),
        ("codes", np.array([-1, 5], "i4"), "holds -1 to 5"),
        ("starts", np.full((2, 4), 0.5, "f"), "does not hold probabilities"),
        ("starts", np.array([[2, -1], [1, 0]], "f"), "does not hold probabilities"),
        ("cuts", np.array([0, 1, 3]), "is wrong: offsets must ascend from 0 to 2"),
        ("cuts", np.array([0, 1]), r"has shape \(2,\)"),
        ("noise.d", np.zeros(5), "holds a number that is not positive"),
        ("noise.d", np.ones(4), r"has shape \(4,\) and must have \(types=5\)"),
    ],
)
def test_what_is_not_as_declared_is_refused_by_name(name, array, message):
    with pytest.raises(ArtifactError, match=f"'{name}' {message}"):
        parameters(**{name: array})


@pytest.mark.parametrize("name", list(made()))
def test_an_array_that_is_missing_is_named(name):
    arrays = made()
    del arrays[name]
    with pytest.raises(ArtifactError, match=f"the array '{name}' is missing; there are: "):
        Parameters.from_arrays(arrays, label="one")


def test_a_copy_shares_nothing_and_takes_the_place_of_its_origin():
    first = parameters(far=np.ones((2, 3), np.float32))
    second = first.copy()
    assert repr(first) == repr(second)  # names and shapes
    assert first.fingerprint() == second.fingerprint()
    for _, array in second.items():
        array[...] = 0
    assert first.fingerprint() == parameters(far=np.ones((2, 3), np.float32)).fingerprint()
    unpack(second, first.to_arrays())
    assert first.fingerprint() == second.fingerprint()
    assert first.nbytes == 4 * (15 + 2 + 8 + 6) + 8 * (3 + 5)


def test_a_checkpoint_has_exactly_the_arrays_that_are_there():
    own = parameters()
    state = own.to_arrays()
    unpack(own, state)
    with pytest.raises(ValueError, match="steps"):
        unpack(own, state | {"steps": np.array(3)})
    for wrong in (np.zeros((5, 2), np.float32), np.zeros((5, 3))):
        with pytest.raises(ValueError, match=r"words: it is float32 \(5, 3\), not "):
            unpack(own, state | {"words": wrong})
    del state["noise.d"]
    with pytest.raises(ValueError, match=r"noise\.d.* is missing"):
        unpack(own, state)


def test_arrays_move_to_a_device_and_back():
    pytest.importorskip("torch")
    own = parameters()
    there = own.to("cpu:0")
    assert str(there.words.device) == "cpu"
    assert there.nbytes == own.nbytes
    assert there.fingerprint() == own.fingerprint()
    unpack(there, own.map(lambda array: array * 0).to_arrays())
    assert not there.to("cpu").words.any()
    assert repr(there.copy()) == repr(own)
    assert own.to("cpu").words is own.words


def test_arrays_are_pickled_and_shown_by_their_shapes():
    own = pickle.loads(pickle.dumps(parameters()))  # noqa: S301
    assert own.fingerprint() == parameters().fingerprint()
    assert repr(own).startswith("Parameters(words(5, 3), codes(2,)")
    with pytest.raises(AttributeError):
        own.words = None


class Odd(Arrays, frozen=False):
    keys: Int64[Array, "pairs", ascending, named("pair keys")]
    joint: Float32[Array, "pairs+1 2 *rest"]
    counts: Float[Array, "any", at_least(0)]
    sizes: Int[Array, ""]
    all: Probabilities[Array, "a b", over()]
    columns: Probabilities[Array, "a b", over(0)] | None


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("pair keys", np.array([3, 3])),
        ("joint", np.zeros((2, 2), "f")),
        ("joint", np.zeros((3, 1), "f")),
        ("joint", np.zeros(3, "f")),
        ("counts", np.array([1.0, -1.0])),
        ("counts", np.array([1])),
        ("sizes", np.array([1])),
        ("sizes", np.array(1.0)),
        ("all", np.full((2, 2), 0.5, "f")),
        ("columns", np.full((2, 2), 0.25, "f")),
    ],
)
def test_other_declarations(name, array):
    arrays = {
        "pair keys": np.array([3, 7]),
        "joint": np.zeros((3, 2, 5, 1), np.float32),
        "counts": np.array([0.0, 2.0]),
        "sizes": np.array(4, np.uint8),
        "all": np.full((2, 2), 0.25, np.float32),
        "columns": np.full((2, 2), 0.5, np.float32),
    }
    found = Odd.from_arrays(arrays)
    assert found.to_arrays() == arrays
    found.sizes = np.array(5)
    with pytest.raises(ArtifactError, match=f"the array '{name}'"):
        Odd.from_arrays(arrays | {name: array})


class Renamed(Arrays):
    inner: Annotated[Noise, named("sound")] | None
    other: Annotated[Noise | None, named("hum")] = None


@pytest.mark.parametrize("saved", [["sound.d"], ["hum.d"], ["sound.d", "hum.d"], []], ids=str)
def test_arrays_under_another_name_may_be_absent(saved):
    arrays = {name: np.ones(3) for name in saved}
    found = Renamed.from_arrays(arrays)
    assert found.to_arrays() == arrays
    assert (found.inner is not None, found.other is not None) == (
        "sound.d" in saved,
        "hum.d" in saved,
    )


class Bare(Arrays):
    inner: Annotated[Noise, named("")] | None = None


@pytest.mark.parametrize(
    "use", [lambda: Bare(Noise(np.ones(3))).to_arrays(), lambda: Bare.from_arrays({})]
)
def test_arrays_without_a_prefix_that_may_be_absent_are_refused(use):
    with pytest.raises(TypeError, match=r"Bare\.inner may be None, .*: leave out named"):
        use()


class Sized(Arrays):
    words: Float32[Array, "types"]
    noise: Noise
    types: int = 7


def test_a_field_is_filled_with_what_was_given_and_not_with_the_size_of_an_array():
    arrays = {"words": np.ones(3, np.float32), "noise.d": np.ones(3)}
    assert Sized.from_arrays(arrays).types == 7
    assert Sized.from_arrays(arrays, types=3).types == 3
    with pytest.raises(ArtifactError, match=r"'words' has shape \(3,\) and must have \(types=4"):
        Sized.from_arrays(arrays, types=4)


def test_further_constraints_of_probabilities_do_not_replace_their_sums():
    declared = Probabilities[Array, "n m", up_to(2.0)]
    take({"p": np.full((2, 3), 1 / 3, "f")}, "p", declared, {})
    with pytest.raises(ArtifactError, match="sum to one"):
        take({"p": np.full((2, 3), 0.9, "f")}, "p", declared, {})


def test_constraints_of_offsets_are_refused():
    with pytest.raises(TypeError, match="Offsets take no constraints"):
        Offsets[Array, "pieces items", ascending]


def test_one_array_is_taken_by_its_annotation():
    sizes = {"types": 5}
    words = take(made(), "words", Float32[Array, "types width"], sizes)
    assert (words.shape, sizes) == ((5, 3), {"types": 5, "width": 3})
    with pytest.raises(ArtifactError, match="words"):
        take(made(), "words", Float32[Array, "types 4"], sizes)


def test_rows_of_equal_ids_are_added_on_every_device():
    torch = pytest.importorskip("torch")
    ids, rows = np.array([4, 1, 4, 2]), np.arange(8.0).reshape(4, 2)
    for convert in (np.asarray, torch.as_tensor):
        found, (sums,) = array_ops.merge_rows(convert(ids), convert(rows))
        np.testing.assert_array_equal(found, [1, 2, 4])
        np.testing.assert_array_equal(sums, [[2, 3], [6, 7], [4, 6]])
        assert not len(array_ops.merge_rows(convert(ids[:0]), convert(rows[:0]))[0])
        found, (sums,) = array_ops.merge_rows(convert(np.array([-1, 0, 0, -1])), convert(rows))
        np.testing.assert_array_equal(found, [-1, 0])
        np.testing.assert_array_equal(sums, [[6, 8], [6, 8]])
        wider = array_ops.append_column(convert(rows), 7.0)
        np.testing.assert_array_equal(wider[:, 2], np.full(4, 7.0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 5), st.integers(0, 99))
def test_sums_of_merged_rows_are_those_of_a_loop(dtype, rows, width, seed):
    rows = np.array(rows, np.int64)
    gradients = np.random.default_rng(seed).standard_normal((len(rows), width)).astype(dtype)
    table = np.zeros((10, width))
    np.add.at(table, rows, gradients)

    found, (sums,) = array_ops.merge_rows(rows, gradients)

    assert found.tolist() == sorted(set(rows.tolist()))
    assert sums.dtype == dtype
    assert sums == pytest.approx(table[found], abs=1e-5)
