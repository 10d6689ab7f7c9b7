"""Reading what is missing, damaged or hostile: an `ArtifactError` that names the path, no more."""

import hashlib
import json
import os
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacenda import artifact
from tacenda.artifact import Artifact
from tacenda.errors import ArtifactError
from tacenda.reading import LARGEST_JSON


def an_artifact(nested=None):
    arrays = {"A": np.arange(6, dtype=np.float32).reshape(2, 3)}
    return Artifact(
        "embedders", "lds", "tacenda-embeddings", "0.1.0", {"n": 2}, arrays, nested=nested or {}
    )


@pytest.fixture
def saved(tmp_path):
    artifact.write(tmp_path / "m", an_artifact({"inner": an_artifact()}))
    return tmp_path / "m"


def change(folder, **changes):
    document = json.loads((folder / "model.json").read_text())
    document.update(changes)
    (folder / "model.json").write_text(json.dumps(document))


def entry(data):
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def plant(folder, data):
    """Put a tensor file of any content, correctly hashed, in the place of the model's."""
    (old,) = folder.glob("tensors-*")
    old.unlink()
    name = f"tensors-{entry(data)['sha256'][:32]}.safetensors"
    (folder / name).write_bytes(data)
    change(folder, files={name: entry(data)})


def tensors(header, data):
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return struct.pack("<Q", len(text)) + text + data


def one_tensor(dtype, shape, offsets, data):
    return tensors({"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}, data)


def refuses(folder, message):
    with pytest.raises(ArtifactError, match=message) as caught:
        artifact.read(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("part", ["settings", "tensors", "nested model", "name"])
def test_parts_of_two_models_are_refused_where_every_hash_fits(saved, tmp_path, part):
    other = Artifact(
        "embedders", "mds", "tacenda-embeddings", "0.1.0", {"n": 3},
        {"A": np.ones((2, 3), np.float32)}, nested={"inner": Artifact("k", "n", "d", "", {}, {})},
    )  # fmt: skip
    artifact.write(tmp_path / "other", other)
    theirs = json.loads((tmp_path / "other" / "model.json").read_text())
    for entry_of_part in (tmp_path / "other").iterdir():
        if entry_of_part.name != "model.json":
            entry_of_part.rename(saved / entry_of_part.name)
    artifact.read(saved)
    key = {"settings": "config", "tensors": "files", "nested model": "nested", "name": "name"}[part]
    change(saved, **{key: theirs[key]})
    refuses(saved, "not those that were saved together")
    document = json.loads((saved / "model.json").read_text())
    del document["seal"]  # as in folders of older versions
    (saved / "model.json").write_text(json.dumps(document))
    assert artifact.read(saved).kind == "embedders"


def test_a_missing_folder_a_file_and_a_folder_without_a_model(tmp_path):
    refuses(tmp_path / "no", "there is no such folder")
    (tmp_path / "file").write_text("")
    refuses(tmp_path / "file", "not a folder")
    (tmp_path / "empty").mkdir()
    refuses(tmp_path / "empty", "holds no model.json")


def test_a_model_json_that_is_no_file(saved):
    (saved / "model.json").unlink()
    (saved / "model.json").mkdir()
    refuses(saved, "model.json is not a file")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "damaged"),
        ("{", "damaged"),
        ("[]", "must be an object"),
        ("nul", "damaged"),
        ("\xff\xfe", "damaged"),
        ("[" * 200_000, "damaged"),
        ('{"a": 1, "a": 2}', "the key 'a' appears twice"),
        ('{"format": "tacenda artifact", "format_version": NaN}', "NaN is not JSON"),
        ('{"a": ' + "9" * 5000 + "}", "damaged"),
        ("{}", "not written by Tacenda"),
        (" " * (LARGEST_JSON + 1), "are not read"),
    ],
)
def test_a_model_json_that_is_no_manifest(saved, text, message):
    (saved / "model.json").write_text(text, encoding="latin-1")
    refuses(saved, message)


def test_a_format_of_the_future_says_to_upgrade(saved):
    change(saved, format_version=2, new_key=1)
    refuses(saved, "format version 2 and this release reads up to 1: upgrade tacenda")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": "1"}, "invalid format_version"),
        ({"format_version": 0}, "invalid format_version"),
        ({"format_version": True}, "invalid format_version"),
        ({"surprise": 1}, "lacks or adds keys: surprise"),
        ({"kind": 3}, "kind must be a short printable text"),
        ({"name": ""}, "name must be a short printable text"),
        ({"name": "\ud800"}, "name must be a short printable text"),
        ({"distribution": "x" * 1000}, "distribution must be a short printable text"),
        ({"config": []}, "config must be an object"),
        ({"figures": {}}, "figures must be a list"),
        ({"figures": [1]}, "figures must be a list"),
        ({"files": []}, "files must be an object"),
        ({"files": {"x": 3}}, "the entry of 'x' is damaged"),
        ({"files": {"x": {"size": -1, "sha256": "0" * 64}}}, "size or sha256 of 'x'"),
        ({"files": {"x": {"size": 1.5, "sha256": "0" * 64}}}, "size or sha256 of 'x'"),
        ({"files": {"x": {"size": 1, "sha256": "../etc/passwd"}}}, "size or sha256 of 'x'"),
        ({"nested": {"../x": {"size": 1, "sha256": "0" * 64}}}, "cannot name a nested model"),
    ],
)
def test_a_manifest_that_breaks_a_rule(saved, changes, message):
    change(saved, **changes)
    refuses(saved, message)


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../secret.safetensors", "model.json", "tensors-" + "0" * 32 + ".safetensors"],
)
def test_a_file_name_that_leads_elsewhere_is_refused_even_with_the_right_hash(saved, name):
    (saved.parent / "secret.safetensors").write_bytes(b"secret")
    change(saved, files={name: entry(b"secret")})
    refuses(saved, "names a file .* which no tensor file can have")


@pytest.mark.parametrize("folder", ["..", "/tmp", "../m", "", 3])
def test_a_nested_folder_that_leads_elsewhere_is_refused(saved, folder):
    nested = json.loads((saved / "model.json").read_text())["nested"]
    nested["inner"]["folder"] = folder
    change(saved, nested=nested)
    refuses(saved, "names a folder .* which no nested model can have")


def test_symbolic_links_are_not_followed(saved, tmp_path):
    (tensor,) = saved.glob("tensors-*")
    (inner,) = saved.glob("nested-*")
    for path, message in ((tensor, "is a symbolic link"), (inner, "is missing")):
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
        refuses(saved, message)
        path.unlink()
        (tmp_path / "elsewhere").rename(path)
    (saved / "model.json").rename(tmp_path / "elsewhere")
    (saved / "model.json").symlink_to(tmp_path / "elsewhere")
    refuses(saved, "model.json is a symbolic link")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_does_not_hang_the_reader(saved):
    (tensor,) = saved.glob("tensors-*")
    tensor.unlink()
    os.mkfifo(tensor)
    refuses(saved, "is not a file")


def test_missing_truncated_and_altered_files(saved):
    (tensor,) = saved.glob("tensors-*")
    whole = tensor.read_bytes()
    tensor.write_bytes(whole[:-1])
    refuses(saved, r"has \d+ bytes and model.json says \d+")
    tensor.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    refuses(saved, "was altered: its sha256")
    tensor.unlink()
    refuses(saved, r"tensors-.* is missing")


def test_a_nested_model_that_is_missing_or_altered(saved):
    (inner,) = saved.glob("nested-*")
    change(inner, version="9")
    refuses(saved, "model.json was altered")
    inner.rename(saved / "away")
    refuses(saved, "nested model .* is missing")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "damaged"),
        (b"\xff" * 8, "damaged"),
        (struct.pack("<Q", 1 << 62) + b"{}", "damaged"),
        (tensors(b"[]", b""), "damaged"),
        (one_tensor("F32", [2], [0, 4], b"1234"), "damaged"),
        (one_tensor("F32", [1], [0, 4], b"12345"), "damaged"),
        (one_tensor("F32", [1], [4, 8], b"12345678"), "damaged"),
        (one_tensor("F32", [1 << 62, 4], [0, 8], b"8" * 8), "damaged"),
        (one_tensor("F32", [0, 1 << 63], [0, 0], b""), "damaged"),
        (one_tensor("F32", [-1], [0, 4], b"1234"), "damaged"),
        (one_tensor("BF16", [1], [0, 2], b"12"), "type BF16"),
        (one_tensor("F8_E4M3", [1], [0, 1], b"1"), "type F8_E4M3"),
    ],
)
def test_a_tensor_file_whose_header_lies(saved, data, message):
    plant(saved, data)
    refuses(saved, message)


def test_overlapping_tensors_are_refused(saved):
    one = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}
    plant(saved, tensors({"a": one, "b": one}, b"1234"))
    refuses(saved, "damaged")


def test_one_array_in_two_files_is_refused(saved):
    document = json.loads((saved / "model.json").read_text())
    other = tensors({"A": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}, b"1234")
    name = f"tensors-{entry(other)['sha256'][:32]}.safetensors"
    (saved / name).write_bytes(other)
    change(saved, files={**document["files"], name: entry(other)})
    refuses(saved, "two tensor files hold an array 'A'")


@settings(max_examples=200)
@given(cut=st.floats(0, 1, exclude_max=True))
def test_bytes_cut_anywhere_are_refused(cut):
    data = an_artifact({"inner": an_artifact()}).to_bytes()
    with pytest.raises(ArtifactError):
        Artifact.from_bytes(data[: int(cut * len(data))])


@settings(max_examples=200)
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_bytes_altered_anywhere_are_refused_or_change_only_the_description(place, flip):
    """The manifest's own words are not hashed; everything it speaks of is."""
    original = an_artifact({"inner": an_artifact()})
    data = bytearray(original.to_bytes())
    data[int(place * len(data))] ^= flip
    try:
        loaded = Artifact.from_bytes(bytes(data))
    except ArtifactError:
        return
    np.testing.assert_array_equal(loaded.arrays["A"], original.arrays["A"])


def test_bytes_with_a_tail_or_of_something_else_are_refused():
    data = an_artifact().to_bytes()
    with pytest.raises(ArtifactError, match="1 bytes follow"):
        Artifact.from_bytes(data + b"x")
    for other in (b"", b"\x80\x04K\x01.", b"PK\x03\x04" * 10):
        with pytest.raises(ArtifactError, match="not a Tacenda model"):
            Artifact.from_bytes(other)
    for other in ("abc", 10**12, None):
        with pytest.raises(ArtifactError, match=f"read from bytes, not from {other!r}"):
            Artifact.from_bytes(other)


def test_bytes_whose_nested_models_go_too_deep_are_refused():
    deep = an_artifact()
    for _ in range(8):
        deep = an_artifact({"inner": deep})
    data = deep.to_bytes()
    Artifact.from_bytes(data)
    head = {**json.loads(data[16 : 16 + int.from_bytes(data[8:16], "little")]), "files": {}}
    head["nested"] = {"inner": entry(data)}
    text = json.dumps(head).encode()
    with pytest.raises(ArtifactError, match="nested more than"):
        Artifact.from_bytes(data[:8] + len(text).to_bytes(8, "little") + text + data)


def test_bytes_that_name_a_file_elsewhere_are_refused():
    data = an_artifact().to_bytes()
    length = int.from_bytes(data[8:16], "little")
    head = json.loads(data[16 : 16 + length])
    head["files"] = dict.fromkeys(["../../evil"], *head["files"].values())
    text = json.dumps(head).encode()
    with pytest.raises(ArtifactError, match="no tensor file can have"):
        Artifact.from_bytes(data[:8] + len(text).to_bytes(8, "little") + text + data[16 + length :])
