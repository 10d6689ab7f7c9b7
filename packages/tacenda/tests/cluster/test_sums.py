"""Sums in a tree: of everything once, and of what lies on one worker before anything is sent."""

from itertools import chain

import pytest

pytest.importorskip("distributed", reason="needs tacenda[dask]")

from dask.delayed import delayed

from tacenda.dask.corpus import FAN_IN, ClusterCorpus, add_in_tree, compute, find_holders
from tacenda.errors import FittingError


def joined(parts):
    return "(" + "".join(parts) + ")"


@pytest.mark.parametrize("n", [1, 2, FAN_IN, FAN_IN + 1, FAN_IN**2 + 3])
def test_everything_is_added_once_and_in_order(client, n):
    letters = [chr(ord("A") + i) for i in range(n)]
    found = compute(client, add_in_tree([delayed(each) for each in letters], joined))
    assert found.replace("(", "").replace(")", "") == "".join(letters)
    assert max(len(group) for group in found.replace(")", "(").split("(")) <= FAN_IN


def test_what_lies_in_one_place_is_added_up_there_first(client):
    letters = [delayed(each) for each in "aBcDeF"]
    found = compute(client, add_in_tree(letters, joined, ["here", "there"] * 3))
    assert found == "((ace)(BDF))"


def test_each_part_is_counted_with_what_is_given_for_it(client, write_file):
    path = write_file("text.txt", "a\nb\nc\n")
    corpus = ClusterCorpus.from_text(path, client=client, partition_bytes=2)

    def count(part, vocabulary, *given):
        words = [*vocabulary.decode(part.ids), *given]
        return [[*words, 0], [*words, 1]]

    def sums(**options):
        found = corpus.sum_pieces(count, 2, lambda pieces: [*chain(*pieces)], "adding", **options)
        return [sorted(map(str, piece)) for piece in found]

    assert sums() == [["0", "0", "0", "a", "b", "c"], ["1", "1", "1", "a", "b", "c"]]
    assert sums(given=["m", "n", "o"]) == [
        ["0", "0", "0", "a", "b", "c", "m", "n", "o"],
        ["1", "1", "1", "a", "b", "c", "m", "n", "o"],
    ]


def test_holders_are_the_workers_that_have_a_result(client):
    futures = client.map(len, ["a", "bc"], pure=False)
    client.gather(futures)
    workers = set(client.scheduler_info()["workers"])
    assert set(find_holders(client, futures)) <= workers
    futures[0].cancel()
    with pytest.raises(FittingError, match="start again"):
        find_holders(client, futures)
