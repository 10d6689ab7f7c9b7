"""Run by test_triton.py in a process of its own: the interpreter is chosen when triton is imported."""

import numpy as np
import pytest
import torch

from tacenda.errors import KernelError
from tacenda.kernels import UnsupportedShape
from tacenda.kernels.sequences import Modes, modal_scan, triton
from tacenda.kernels.shared import sparse_product
from tacenda.testing.kernels.samples import random_counts

TOLERANCE = {np.float32: 2e-5, np.float64: 1e-12}


def problem(lengths, n_real=2, n_pairs=3, dtype=np.float32, seed=0):
    """Eigenvalues, a table, ids and offsets."""
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *lengths])
    real = rng.uniform(-0.95, 0.95, n_real).astype(dtype)
    pairs = rng.uniform(-0.65, 0.65, (n_pairs, 2)).astype(dtype)
    table = rng.standard_normal((5, n_real + 2 * n_pairs)).astype(dtype)
    return Modes(real, pairs), table, rng.integers(0, 5, offsets[-1]), offsets


def assert_scans(device, arguments, *, started=False, reverse=False):
    """Kept in the middle of a wider array, and last states alone; what is beside the kept columns stays."""
    _, table, ids, offsets = arguments
    states, tolerance = table.shape[1], TOLERANCE[table.dtype.type]
    initial = None
    if started:
        shape = (len(offsets) - 1, states)
        initial = np.random.default_rng(1).standard_normal(shape).astype(table.dtype)
    out = np.full((len(ids) + 2, states + 3), 7, table.dtype)
    given = *arguments, initial, reverse
    found, _ = device.check(modal_scan, *given, out, 2, tolerance=tolerance)
    last = modal_scan(*device.tensors(given)).last
    assert torch.equal(last, found.last)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("started", [False, True])
def test_sequences_short_and_empty(device, started, reverse):
    assert_scans(device, problem((0, 5, 1, 0, 9)), started=started, reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_long_sequence_in_chunks_of_chunks(device, dtype, reverse, monkeypatch):
    """70 tokens in chunks of 4, whose 18 ends are cut again, and shorter ones beside it."""
    monkeypatch.setattr(triton, "CHUNK", 4)
    arguments = problem((3, 70, 0, 4, 5), dtype=dtype)
    assert_scans(device, arguments, started=True, reverse=reverse)


@pytest.mark.parametrize(("n_real", "n_pairs"), [(1, 0), (0, 1), (0, 0), (0, 70), (130, 1)])
def test_eigenvalues_of_one_kind_and_more_than_a_program_holds(device, n_real, n_pairs):
    assert_scans(device, problem((2, 3), n_real, n_pairs))


def test_no_sequences_and_no_tokens(device):
    assert_scans(device, problem(()))
    assert_scans(device, problem((0, 0)), started=True)


def test_a_sequence_does_not_depend_on_its_batch(device, monkeypatch):
    monkeypatch.setattr(triton, "CHUNK", 4)
    modes, table, ids, offsets = problem((3, 21, 8))
    given = device.tensors((modes, table))
    shape = len(ids), table.shape[1]
    zeros = torch.zeros(shape, device=device.name)
    together = modal_scan(*given, ids, offsets, out=zeros.clone())
    alone = modal_scan(*given, ids[3:24], [0, 21], out=zeros.clone())
    assert torch.equal(alone.before[:21], together.before[3:24])
    assert torch.equal(alone.last[0], together.last[1])


def test_ids_may_lie_on_the_device_and_are_checked_there(device):
    modes, table, ids, offsets = problem((5, 2))
    given = device.tensors((modes, table))
    there = torch.from_numpy(ids).to(device.name)
    found = modal_scan(*given, there, offsets).last
    assert torch.equal(found, modal_scan(*given, ids, offsets).last)
    there[3] = 5
    with pytest.raises(KernelError, match="ids run from 0 to 5, and there are 5 rows"):
        modal_scan(*given, there, offsets)


def test_nan_goes_on_within_its_sequence_and_its_states(device):
    modes, table, _, _ = problem((1,))
    table[4, 0] = np.nan
    given = device.tensors((modes, table))
    out = torch.zeros((6, table.shape[1]), device=device.name)
    modal_scan(*given, np.array([0, 4, 1, 1, 2, 3]), [0, 3, 6], out=out)
    assert out.isnan().nonzero().tolist() == [[2, 0]]


# -- sparse times dense ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.int64])
@pytest.mark.parametrize(
    "shape", [(0, 3, 4), (3, 5, 0), (1, 1, 1), (9, 63, 17), (4, 40, 130)], ids=str
)
def test_products_of_counts(device, shape, dtype):
    rows, columns, width = shape
    counts = random_counts(rows, columns, 0.5, dtype, seed=rows)
    rng = np.random.default_rng(width)
    dense = rng.standard_normal((columns, width), np.float32)
    r, c = rng.random(rows, np.float32), rng.random(columns, np.float32)
    for scales in ((None, None), (r, None), (None, c), (r, c)):
        expected = device.reference(sparse_product, *counts, dense, *scales)
        found = sparse_product(*counts, *device.tensors((dense, *scales)))
        device.assert_like(found, expected, 1e-5)


def test_the_sparse_operand_may_lie_on_the_device(device):
    counts = random_counts(6, 20, 0.4, np.int32, seed=0)
    (dense,) = device.tensors((np.random.default_rng(0).standard_normal((20, 7), np.float32),))
    there = [torch.from_numpy(np.asarray(part)).to(device.name) for part in counts]
    found = sparse_product(*there, dense)
    assert torch.equal(found, sparse_product(*counts, dense))


def test_addresses_that_do_not_exist_are_refused(device):
    indptr, indices, data = random_counts(6, 20, 0.4, np.int32, seed=0)
    dense = torch.ones((19, 3), device=device.name)
    with pytest.raises(KernelError, match=r"outside 0 \.\. 18"):
        sparse_product(indptr, np.where(indices == indices[0], 19, indices), data, dense)
    wrong = indptr.copy()
    wrong[2] = wrong[3] + 1
    with pytest.raises(KernelError, match="does not ascend"):
        sparse_product(wrong, np.zeros_like(indices), data, dense)
    with pytest.raises(UnsupportedShape, match="only float32"):
        sparse_product(indptr, np.zeros_like(indices), data, dense.double())
