"""Rows that are kept in memory or in a file until they are read."""

import numpy as np
import pytest

from tacenda_lm.ngram.counting import Scratch, Spool


@pytest.mark.parametrize("budget", [0, 1 << 20])
def test_rows_may_be_added_after_some_were_read(budget):
    rows = np.arange(12, dtype=np.uint64).reshape(6, 2)
    spool = Spool(Scratch(budget), 2)
    for i in (0, 2, 4):
        spool.append(rows[i : i + 2])
        np.testing.assert_array_equal(np.concatenate(list(spool())), rows[: i + 2])
