"""What a device is called, where "auto" leads, what is said of one that is not there or is full."""

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pytest
from scipy.sparse import csr_array

from support.processes import output_of
from tacenda import devices, kernels
from tacenda.array_ops import DeviceCSR, assign, in_c_order, to_device, to_numpy, to_tensors
from tacenda.errors import ConfigurationError, FittingError
from tacenda.settings import Settings

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs triton")


@dataclass(frozen=True, kw_only=True)
class PuppetSettings(Settings):
    device: str = devices.option()


class Cuda:
    """As much of ``torch.cuda`` as is asked for, with two devices of which 3 GB are free."""

    OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {})

    def _is_in_bad_fork(self):
        return False

    def is_available(self):
        return True

    def device_count(self):
        return 2

    def mem_get_info(self, device):
        return 3_000_000_000, 80_000_000_000

    def memory_reserved(self, device):
        return 1_000_000_000

    def memory_allocated(self, device):
        return 500_000_000


@pytest.fixture
def two_gpus(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch, "cuda", Cuda())
    monkeypatch.setattr(devices, "_may_have_cuda", lambda: True)
    monkeypatch.setattr("tacenda.kernels.backends.find_spec", lambda name: name)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(devices, "_may_have_cuda", lambda: False)


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:0", "cuda:15"])
def test_names_of_devices(device):
    assert PuppetSettings(device=device).device == device


@pytest.mark.parametrize(
    "device",
    ["gpu", "CUDA", "cuda:", "cuda:-1", "cuda:01", "cuda:٣", "cuda:300", "mps", "", 0, None],
)
def test_other_names_are_refused(device):
    with pytest.raises(ConfigurationError, match="Puppet: device must be"):
        PuppetSettings(device=device)


def test_auto_is_the_cpu_without_a_gpu_and_torch_is_not_imported():
    code = """
import sys
from types import SimpleNamespace
from tacenda import devices
devices._may_have_cuda = lambda: False
print(devices.resolve(SimpleNamespace(device="auto"), ["modal_scan"]), "torch" in sys.modules)
"""
    assert output_of("-c", code).split() == ["cpu", "False"]


@needs_triton
def test_auto_is_a_gpu_where_all_operations_run_there(two_gpus):
    settings = PuppetSettings()
    assert devices.resolve(settings, ["modal_scan", "unit_rows"]) == "cuda"
    assert devices.resolve(settings, ["modal_scan", "merge_counts"]) == "cpu"
    with kernels.use("cpu"):
        assert devices.resolve(settings, ["modal_scan"]) == "cpu"


@needs_triton
def test_a_process_forked_from_one_that_uses_a_gpu_stays_on_the_cpu(two_gpus, monkeypatch):
    monkeypatch.setattr("torch.cuda._is_in_bad_fork", lambda: True)
    assert devices.resolve(PuppetSettings(), ["modal_scan"]) == "cpu"
    with pytest.raises(ConfigurationError, match="was forked from one that uses it"):
        devices.resolve(PuppetSettings(device="cuda"), ["modal_scan"])


@needs_triton
def test_a_device_by_its_number(two_gpus):
    assert devices.resolve(PuppetSettings(device="cuda:1"), ["modal_scan"]) == "cuda:1"
    with pytest.raises(ConfigurationError, match="'cuda:2', and the last one here is cuda:1"):
        devices.resolve(PuppetSettings(device="cuda:2"), [])


def test_a_device_asked_for_by_name_must_run_the_operations(two_gpus):
    with pytest.raises(
        ConfigurationError, match=r"Puppet: device is 'cuda', and .*cpu does not serve cuda"
    ):
        devices.resolve(PuppetSettings(device="cuda"), ["merge_counts"])


def test_a_device_that_is_not_there_is_named_with_what_to_do(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(
        ConfigurationError, match=r"'cuda:1', and torch .* finds no CUDA device here: use"
    ) as caught:
        devices.resolve(PuppetSettings(device="cuda:1"), ["modal_scan"])
    assert "\n" not in str(caught.value)


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"install tacenda\[gpu\]"):
        devices.resolve(PuppetSettings(device="cuda"), ["modal_scan"])


def test_memory_is_that_of_the_device(two_gpus):
    settings = PuppetSettings(device="cuda:1")
    assert devices.available_memory("cuda:1") == int(0.95 * 3.5e9)
    devices.check_memory(3_300_000_000, "cuda:1", settings, "less")
    with pytest.raises(
        ConfigurationError,
        match=r"Puppet: training needs about 25 GB, and cuda:1 has 3.3 GB free: give fewer states",
    ):
        devices.check_memory(25_000_000_000, "cuda:1", settings, "fewer states")


def test_memory_of_the_machine(monkeypatch):
    monkeypatch.setattr(devices, "available_memory", lambda device: 8_000_000_000)
    with pytest.raises(
        ConfigurationError, match=r"needs about 9 GB, and the machine has 8 GB: give less"
    ):
        devices.check_memory(9_000_000_000, "cpu", PuppetSettings(), "less")
    monkeypatch.setattr(devices, "available_memory", lambda device: 0)  # not known
    devices.check_memory(9_000_000_000, "cpu", PuppetSettings(), "less")


def test_a_container_has_no_more_memory_than_its_limit(monkeypatch, tmp_path):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(devices, "_CONTAINER_LIMIT", limit)
    physical = devices.available_memory("cpu")
    for text, expected in (("max\n", physical), ("1048576\n", 1 << 20), (f"{1 << 62}\n", physical)):
        limit.write_text(text, encoding="ascii")
        assert devices.available_memory("cpu") == expected


def test_a_full_device_says_what_to_lower():
    with (
        pytest.raises(
            FittingError,
            match="Puppet: the memory of the device was not enough: give a smaller batch, or",
        ),
        devices.out_of_memory(PuppetSettings(), "a smaller batch"),
    ):
        raise Cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
    with pytest.raises(RuntimeError, match="illegal"), devices.out_of_memory(PuppetSettings(), "x"):
        raise RuntimeError("an illegal memory access")


def test_small_arrays_go_to_a_gpu_without_waiting_for_it(monkeypatch):
    torch, copies = pytest.importorskip("torch"), []

    def to(tensor, device, non_blocking=False):
        copies.append((device, tensor.nbytes, tensor.is_shared() and non_blocking))
        return tensor

    monkeypatch.setattr(torch.Tensor, "to", to)
    monkeypatch.setattr(torch.Tensor, "pin_memory", torch.Tensor.share_memory_)  # a mark of it
    for device in ("cuda", "cpu:0"):
        to_tensors((np.zeros(3), np.zeros(1 << 20)), device)
    assert copies == [
        ("cuda", 24, True), ("cuda", 8 << 20, False), ("cpu:0", 24, False), ("cpu:0", 8 << 20, False)
    ]  # fmt: skip


def test_a_sparse_table_of_the_right_dtypes_shares_its_memory_on_the_cpu():
    table = csr_array(np.eye(2, dtype=np.float32))
    # SciPy gives both one dtype
    table.indptr, table.indices = table.indptr.astype(np.int64), table.indices.astype(np.int32)
    given = table.indptr, table.indices, table.data
    for own, part in zip(given, DeviceCSR.of(table, "cpu"), strict=True):
        assert np.shares_memory(own, part)


def test_arrays_go_to_a_device_and_come_back():
    array = np.arange(6.0).reshape(2, 3).T
    assert to_device(array, "cpu") is array
    assert to_numpy(array) is array
    pytest.importorskip("torch")
    tensor = to_device(array, "cpu:0")
    assert tensor.shape == (3, 2)
    np.testing.assert_array_equal(to_numpy(tensor), array)
    array.flags.writeable = False
    np.testing.assert_array_equal(to_numpy(to_device(array, "cpu:0")), array)
    assign(tensor, array[::-1])
    np.testing.assert_array_equal(to_numpy(tensor), array[::-1])
    assert to_device(np.array(1.0), "cpu:0").shape == in_c_order(np.array(1.0)).shape == ()
