"""Rows that are kept in memory or in a file until they are read."""

import tempfile

import numpy as np
import pytest

from tacenda_lm import KneserNey
from tacenda_lm.ngram.spooling import Scratch, Spool


@pytest.mark.parametrize("budget", [0, 1 << 20])
def test_rows_may_be_added_after_some_were_read(budget):
    rows = np.arange(12, dtype=np.uint64).reshape(6, 2)
    spool = Spool(Scratch(budget), 2)
    for i in (0, 2, 4):
        spool.append(rows[i : i + 2])
        np.testing.assert_array_equal(np.concatenate(list(spool())), rows[: i + 2])


def test_a_fit_that_fails_leaves_no_files(tmp_path, monkeypatch):
    """Also while its traceback is kept, as an interactive session does: the disk may be full of them."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    append, files = Spool.append, []

    def fail_later(self, rows):
        append(self, rows)
        files[:] = [path for path in tmp_path.rglob("*") if path.is_file()]
        if len(files) > 2:
            raise MemoryError

    monkeypatch.setattr(Spool, "append", fail_later)
    text = [[f"w{i * j % 97}" for j in range(20)] for i in range(2000)]
    with pytest.raises(MemoryError) as kept:
        KneserNey(order=4, memory_gb=1e-6).fit(text)
    assert kept.tb is not None
    assert files
    assert not any(path.exists() for path in files)
