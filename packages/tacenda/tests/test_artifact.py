"""The artefact as folder and as bytes: what goes in comes out, and what cannot is refused."""

import dataclasses
import functools
import json

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from tacenda import artifact
from tacenda.artifact import Artifact
from tacenda.errors import ArtifactError

DTYPES = [np.bool_, *"bhilBHIL", np.float16, np.float32, np.float64]

arrays_strategy = st.dictionaries(
    st.text(min_size=1, max_size=10).filter(
        lambda name: name != "__metadata__" and "#" not in name
    ),
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
    ),
    max_size=4,
)
json_strategy = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def an_artifact(arrays=None, nested=None, **config):
    return Artifact(
        kind="embedders",
        name="lds",
        distribution="tacenda-embeddings",
        version="0.1.0",
        config=config,
        arrays={"A": np.eye(3, dtype=np.float32)} if arrays is None else arrays,
        figures=[{"measure": "perplexity", "value": 12.5, "protocol": "all tokens"}],
        fitted_on={"tokens": 1000},
        nested=nested or {},
    )


def assert_same(first, second):
    for field in ("kind", "name", "distribution", "version", "config", "figures", "fitted_on"):
        assert getattr(first, field) == getattr(second, field)
    assert first.arrays.keys() == second.arrays.keys()
    for name, array in first.arrays.items():
        other = second.arrays[name]
        assert (array.dtype.newbyteorder("="), array.shape) == (other.dtype, other.shape)
        assert array.astype(other.dtype).tobytes() == other.tobytes()
    assert first.nested.keys() == second.nested.keys()
    for name, part in first.nested.items():
        assert_same(part, second.nested[name])


@given(
    arrays=arrays_strategy, config=st.dictionaries(st.text(max_size=8), json_strategy, max_size=3)
)
def test_any_artifact_survives_bytes_bit_for_bit(arrays, config):
    original = an_artifact(arrays)
    original.config.update(config)
    assert_same(original, Artifact.from_bytes(original.to_bytes()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_awkward_shape_survives_the_folder(tmp_path, dtype):
    shapes = [(), (0,), (1,), (3, 0, 2), (2, 3)]
    arrays = {str(shape): np.ones(shape, dtype) for shape in shapes}
    arrays["odd bytes"] = np.ones(63, np.uint8)
    artifact.write(tmp_path / "m", original := an_artifact(arrays))
    assert_same(original, artifact.read(tmp_path / "m"))


def test_strided_transposed_big_endian_and_memory_mapped_arrays_keep_their_values(tmp_path):
    base = np.arange(24, dtype=np.float64).reshape(4, 6)
    np.save(tmp_path / "a.npy", base)
    arrays = {
        "strided": base[::2, ::-1],
        "transposed": base.T,
        "big endian": base.astype(">f8"),
        "mapped": np.load(tmp_path / "a.npy", mmap_mode="r"),
    }
    artifact.write(tmp_path / "m", an_artifact(arrays))
    for name, array in artifact.read(tmp_path / "m").arrays.items():
        np.testing.assert_array_equal(array, arrays[name])
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.flags.aligned


def test_the_tensor_file_is_plain_safetensors_named_by_its_content(tmp_path):
    artifact.write(tmp_path / "m", an_artifact())
    (file,) = (tmp_path / "m").glob("tensors-*.safetensors")
    np.testing.assert_array_equal(safetensors.numpy.load_file(file)["A"], np.eye(3))
    entry = json.loads((tmp_path / "m" / "model.json").read_text())["files"][file.name]
    assert entry["size"] == file.stat().st_size
    assert file.name == f"tensors-{entry['sha256'][:32]}.safetensors"


def test_the_manifest_tells_a_reader_without_the_plugin_what_the_model_is(tmp_path):
    artifact.write(tmp_path / "m", an_artifact(n_states=3))
    document = json.loads((tmp_path / "m" / "model.json").read_text())
    assert document["format_version"] == artifact.FORMAT_VERSION == 1
    assert document["config"] == {"n_states": 3}
    assert document["distribution"] == "tacenda-embeddings"
    assert document["figures"][0]["protocol"] == "all tokens"


def test_saving_the_same_model_twice_gives_the_same_bytes(tmp_path):
    model = an_artifact(nested={"inner": an_artifact(b=2)})
    for name in "ab":
        artifact.write(tmp_path / name, model)
    artifact.write(tmp_path / "a", model)  # and again over itself

    def files(folder):
        paths = [path for path in folder.rglob("*") if path.is_file()]
        return {path.relative_to(folder): path.read_bytes() for path in paths}

    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert len(files(tmp_path / "a")) == 4
    assert model.to_bytes() == model.to_bytes()


def test_nested_models_survive_and_each_is_a_whole_artifact(tmp_path):
    inner = an_artifact({"x": np.arange(3)}, nested={"leaf": an_artifact({}, depth=2)}, depth=1)
    model = an_artifact({}, nested={"inner": inner, "twin": inner})
    artifact.write(tmp_path / "m", model)
    assert_same(model, artifact.read(tmp_path / "m"))
    (folder,) = (tmp_path / "m").glob("nested-inner-*")
    assert_same(inner, artifact.read(folder))
    assert_same(model, Artifact.from_bytes(model.to_bytes()))


def test_a_new_model_replaces_the_old_and_removes_what_it_no_longer_names(tmp_path):
    folder = tmp_path / "m"
    artifact.write(folder, an_artifact(nested={"inner": an_artifact()}, first=True))
    (folder / "README.md").write_text("kept")
    (folder / "tensors-mine.safetensors").write_text("kept")
    new = an_artifact({"B": np.zeros(2)}, nested={"inner": an_artifact({"C": np.ones(1)})})
    artifact.write(folder, new)
    assert_same(new, artifact.read(folder))
    names = sorted(path.name.split("-")[0] for path in folder.iterdir())
    assert names == ["README.md", "model.json", "nested", "tensors", "tensors"]
    assert (folder / "README.md").read_text() == "kept"


def test_a_damaged_nested_model_is_mended_by_saving_again(tmp_path):
    model = an_artifact(nested={"inner": an_artifact()})
    artifact.write(tmp_path / "m", model)
    (tensor,) = (tmp_path / "m").glob("nested-inner-*/tensors-*")
    tensor.write_bytes(b"x" * tensor.stat().st_size)
    with pytest.raises(ArtifactError, match="altered"):
        artifact.read(tmp_path / "m")
    artifact.write(tmp_path / "m", model)
    assert_same(model, artifact.read(tmp_path / "m"))


def test_loaded_arrays_stay_as_they_were_when_the_model_is_replaced_or_removed(tmp_path):
    first = np.arange(100_000.0)
    artifact.write(tmp_path / "m", an_artifact({"x": first}))
    loaded = artifact.read(tmp_path / "m").arrays["x"]
    (file,) = (tmp_path / "m").glob("tensors-*")
    file.write_bytes(b"\xff" * 100)
    artifact.write(tmp_path / "m", an_artifact({"x": -first}))
    np.testing.assert_array_equal(loaded, first)


def test_numpy_scalars_and_tuples_in_a_configuration_become_plain(tmp_path):
    original = an_artifact(a=np.float32(0.5), b=np.int64(3), c=(1, 2), d=np.bool_(True))
    artifact.write(tmp_path / "m", original)
    assert artifact.read(tmp_path / "m").config == {"a": 0.5, "b": 3, "c": [1, 2], "d": True}


def nest(depth):
    """A number in so many lists."""
    return functools.reduce(lambda inner, _: [inner], range(depth), 1)


def test_what_is_saved_is_not_nested_too_deep_to_be_read(tmp_path):
    deepest = an_artifact(x=nest(97))
    artifact.write(tmp_path / "m", deepest)
    assert artifact.read(tmp_path / "m").config == deepest.config


NOT_JSON = [
    ({"x": nest(98)}, "more than 100 deep"),
    ({"x": float("nan")}, r"config\.x is nan"),
    ({"x": ["\ud800"]}, r"config\.x\[0\] is .*UTF-8"),
    ({"\ud800": 1}, r"a key of config is .*UTF-8"),
    ({"x": 10**5000}, r"config\.x is an integer of 16,610 bits"),
    ({"x": [1, {"y": float("-inf")}]}, r"config\.x\[1\]\.y is -inf"),
    ({"x": {1: "a"}}, r"config\.x has the key 1"),
    ({"x": object()}, r"config\.x is of type object"),
    ({"x": np.ones(2)}, r"config\.x is of type ndarray"),
    ({"x": {1, 2}}, r"config\.x is of type set"),
    ({"x": "y" * (33 << 20)}, "keep large values in arrays"),
]
NO_ARRAYS = [
    ({"x": np.ones(2, np.complex64)}, r"array 'x' has dtype complex64"),
    ({"x": np.array(["a"])}, r"array 'x' has dtype <U1"),
    ({"x": np.array([object()])}, r"array 'x' has dtype object"),
    ({"x": np.ones(2, np.longdouble)}, r"array 'x' has dtype"),
    ({"x": np.zeros(2, "M8[s]")}, r"array 'x' has dtype datetime64"),
    ({"x": [1, 2]}, r"array 'x' is a builtins.list: convert it to a numpy array"),
    ({"__metadata__": np.ones(1)}, "cannot name an array"),
    ({"": np.ones(1)}, "cannot name an array"),
    ({"\ud800": np.ones(1)}, "cannot name an array"),
    ({"x#y": np.ones(1)}, "without '#'"),
    ({"x#": np.ones(1)}, "without '#'"),
]


def endless():
    model = an_artifact()
    model.nested["self"] = model
    return model


def inside(*names, **changes):
    """Nested models of these names, the innermost with changes."""
    model = dataclasses.replace(an_artifact(), **changes)
    return functools.reduce(lambda part, name: an_artifact(nested={name: part}), names[::-1], model)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        *((an_artifact(**config), message) for config, message in NOT_JSON),
        *((an_artifact(arrays), message) for arrays, message in NO_ARRAYS),
        *((inside("inner", arrays=a), f"in .* 'inner', .*{message}") for a, message in NO_ARRAYS),
        *(
            (an_artifact(nested={name: an_artifact()}), "cannot name a nested model")
            for name in ("", "..", "a/b", "/a", "a\\b", ".hidden", "x" * 65, "ä", 1)
        ),
        (dataclasses.replace(an_artifact(), figures=[3]), "figures must be a list of objects"),
        (inside("a", "b", fitted_on={"x": {1}}), r"in the nested model 'a/b', fitted_on\.x is of"),
        (inside("a", figures=[3]), "in the nested model 'a', figures must be a list of objects"),
        (
            inside("a", nested={"b": an_artifact(), 1: an_artifact()}),
            "in the nested model 'a', 1 cannot name a nested model",
        ),
        (an_artifact(nested={"a": 5}), "in the nested model 'a', it is a int, not an Artifact"),
        (endless(), "nested more than"),
    ],
)
def test_what_cannot_be_saved_is_refused_before_anything_is_written(tmp_path, model, message):
    """As a folder and as bytes."""
    for save in (lambda: artifact.write(tmp_path / "new" / "m", model), model.to_bytes):
        with pytest.raises(ArtifactError, match=message):
            save()
    assert list(tmp_path.iterdir()) == []


def test_a_model_is_not_saved_over_what_is_not_a_model(tmp_path):
    (tmp_path / "file").write_text("precious")
    with pytest.raises(ArtifactError, match=r"file: it is not a folder"):
        artifact.write(tmp_path / "file", an_artifact())
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "thesis.tex").write_text("precious")
    with pytest.raises(ArtifactError, match="it holds other files and no model"):
        artifact.write(folder, an_artifact())
    (folder / "model.json").write_text('{"class_name": "Sequential"}')
    with pytest.raises(ArtifactError, match=r"its model.json is not Tacenda's"):
        artifact.write(folder, an_artifact())
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "thesis.tex"]


def test_an_empty_folder_and_missing_parents_are_fine(tmp_path):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "a" / "b" / "c"):
        artifact.write(str(path), an_artifact())
        assert_same(an_artifact(), artifact.read(str(path)))
