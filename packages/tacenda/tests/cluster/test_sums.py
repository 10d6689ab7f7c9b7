"""Sums in a tree: of everything once, and of what lies on one worker before anything is sent."""

import pytest

pytest.importorskip("distributed", reason="needs tacenda[dask]")

from dask.delayed import delayed

from tacenda.dask.sums import FAN_IN, computed, holders, summed, tree
from tacenda.errors import FittingError


def joined(parts):
    return "(" + "".join(parts) + ")"


@pytest.mark.parametrize("n", [1, 2, FAN_IN, FAN_IN + 1, FAN_IN**2 + 3])
def test_everything_is_added_once_and_in_order(client, n):
    letters = [chr(ord("A") + i) for i in range(n)]
    found = computed(client, tree([delayed(each) for each in letters], joined))
    assert found.replace("(", "").replace(")", "") == "".join(letters)
    assert max(len(group) for group in found.replace(")", "(").split("(")) <= FAN_IN


def test_what_lies_in_one_place_is_added_up_there_first(client):
    letters = [delayed(each) for each in "aBcDeF"]
    found = computed(client, tree(letters, joined, ["here", "there"] * 3))
    assert found == "((ace)(BDF))"


def test_more_is_added_to_each_piece_with_the_first_run(client):
    def run(name):
        return [f"{name}0", f"{name}1"]

    runs = [delayed(run)(name) for name in "abc"]
    options = {"places": ["x", "y", "x"], "more": [delayed("m"), delayed("n")]}
    pieces = summed(client, runs, 2, joined, "adding", [1, 1, 1], "run", **options)
    assert list(pieces) == ["((ma0c0)b0)", "((na1c1)b1)"]
    assert list(summed(client, runs, 2, joined, "adding", [1, 1, 1], "run")) == [
        "(a0b0c0)",
        "(a1b1c1)",
    ]


def test_holders_are_the_workers_that_have_a_result(client):
    futures = client.map(len, ["a", "bc"], pure=False)
    client.gather(futures)
    workers = set(client.scheduler_info()["workers"])
    assert set(holders(client, futures)) <= workers
    futures[0].cancel()
    with pytest.raises(FittingError, match="start again"):
        holders(client, futures)
