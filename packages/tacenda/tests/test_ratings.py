import datetime
import gzip
import lzma
import os
from collections import namedtuple
from enum import Enum
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from tacenda.errors import ConfigurationError, DataError
from tacenda.ratings import IdIndex, Ratings, folds, read_ratings, split, split_last, split_per_user
from tacenda.ratings.ids import number_ids

TRIPLES = [("bob", "x", 3.0), ("al", "y", 5.0), ("al", "x", 1.0), ("cy", "z", 4.0)]
tables = st.dictionaries(
    st.tuples(st.integers(0, 9), st.integers(0, 9)), st.integers(1, 5), min_size=1, max_size=60
)


def make(table):
    rows = [(user, item, value) for (user, item), value in table.items()]
    return Ratings.from_triples(rows)


def as_dict(r):
    users, items = r.users.raw[r.user_ids], r.items.raw[r.item_ids]
    return {(str(u), str(i)): float(v) for u, i, v in zip(users, items, r.values, strict=True)}


@given(tables)
def test_everything_put_in_comes_out_by_user_and_by_item(table):
    r = make(table)
    expected = {(str(u), str(i)): float(v) for (u, i), v in table.items()}
    assert as_dict(r) == expected
    assert (len(r), r.n_users, r.n_items) == (
        len(table), len({u for u, _ in table}), len({i for _, i in table}),
    )  # fmt: skip
    dense = r.to_csr().toarray()
    for u in range(r.n_users):
        items, values = r.of_user(u)
        assert (np.diff(items) > 0).all()
        assert (dense[u, items] == values).all()
    for i in range(r.n_items):
        users, values = r.of_item(i)
        assert (np.diff(users) > 0).all()
        assert (dense[users, i] == values).all()
    assert r.by_item.to_csr().toarray().tolist() == dense.T.tolist()
    assert r.mean == pytest.approx(np.mean(list(table.values())))


@given(tables, st.randoms())
def test_the_order_of_the_rows_does_not_matter(table, random):
    rows = list(table.items())
    random.shuffle(rows)
    a, b = make(table), make(dict(rows))
    assert a.fingerprint == b.fingerprint
    assert a.item_ids.tobytes() == b.item_ids.tobytes()


def test_arrays_are_compact_and_ids_are_strings():
    r = Ratings.from_triples(TRIPLES, scale=(1, 5))
    assert (r.item_ids.dtype, r.values.dtype, r.user_offsets.dtype) == (
        np.int32, np.float32, np.int64,
    )  # fmt: skip
    assert r.users.raw.tolist() == ["al", "bob", "cy"]
    assert r.users.number("bob") == 1
    assert r.users.find("nobody") is None
    assert "cy" in r.users
    with pytest.raises(DataError, match="unknown user 'nobody'"):
        r.users.number("nobody")


def from_columns(*columns, **options):
    return Ratings.from_triples(zip(*columns, strict=True), **options)


constructors = pytest.mark.parametrize("construct", [Ratings.from_arrays, from_columns])


@constructors
def test_integer_ids_are_numbered_by_value_and_equal_their_strings(construct):
    r = construct([10, 9, 100], [1, 1, 1], [1, 2, 3])
    assert r.users.raw.tolist() == ["9", "10", "100"]
    assert r.users.number(9) == r.users.number("9") == 0
    assert construct([1, "1"], ["a", "b"], [1.0, 2.0]).n_users == 1


@constructors
def test_tuples_are_ids_by_their_text(construct):
    r = construct([(1, 2), (1,)], ["a", "b"], [1.0, 2.0])
    assert r.users.raw.tolist() == ["(1, 2)", "(1,)"]


@constructors
def test_a_table_without_ratings_needs_a_scale(construct):
    assert len(construct([], [], [], scale=(1, 5))) == 0
    with pytest.raises(DataError, match="there are no ratings; give at least one, or the scale"):
        construct([], [], [])


def test_duplicates_are_an_error_or_the_last_one_counts():
    rows = [*TRIPLES, ("al", "x", 2.0), ("al", "x", 4.0)]
    with pytest.raises(DataError, match="user 'al' rated item 'x' more than once"):
        Ratings.from_triples(rows)
    r = Ratings.from_triples(rows, duplicates="last")
    assert as_dict(r)["al", "x"] == 4.0
    assert len(r) == 4
    for triples in (rows, [("al", "x", 2.0)]):
        with pytest.raises(DataError, match="'error' or 'last'"):
            Ratings.from_triples(triples, duplicates="first")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_ratings_that_are_not_finite_are_refused_by_name(bad):
    with pytest.raises(DataError, match=r"user 'bob' for item 'q' is -?(nan|inf)"):
        Ratings.from_triples([*TRIPLES, ("bob", "q", bad)])


def test_ratings_off_the_scale_are_refused_by_name():
    with pytest.raises(DataError, match=r"user 'al' for item 'y' is 5, off the scale 1 to 4"):
        Ratings.from_triples(TRIPLES, scale=(1, 4))


@pytest.mark.parametrize(
    "scale",
    [(5, 1), (1, np.inf), (-np.inf, 5), (np.nan, 5), (1,), (1, 2, 3), 5, (1, None), "ab", "15"],
)
def test_a_scale_that_is_empty_or_without_end_is_refused(scale):
    with pytest.raises(DataError, match=r"the rating scale .*; give \(lowest, highest\)"):
        Ratings.from_triples(TRIPLES, scale=scale)


@pytest.mark.parametrize(
    "arrays",
    [
        ([1, 2], [1], [1.0, 2.0]),
        ([1, 2], [1, 2], [1.0]),
        ([[1], [2]], [1, 2], [1.0, 2.0]),
        ([1, 2], [1, 2], [1.0, "x"]),
        ([1, 2], [1, 2], [1.0, 2j]),
        ([1, 2], [1, 2], np.array(["2020-01-01", "2020-01-02"], "M8[s]")),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(arrays):
    with pytest.raises(DataError):
        Ratings.from_arrays(*arrays)


def test_raw_ids_where_an_index_is_needed_are_refused():
    with pytest.raises(DataError, match=r"not \['al', 'bob'\]; Ratings.from_arrays takes raw ids"):
        Ratings([0, 1], [0, 1], [3.0, 4.0], ["al", "bob"], ["x", "y"])


@pytest.mark.parametrize(
    "triples", [[("a", "x", 1.0), ("b", "x")], [(1, 2, 3.0, 4)], (1, 2, 3.0), ["ux3"], b"ux3", None]
)
def test_what_is_no_list_of_triples_is_refused(triples):
    with pytest.raises(DataError, match="not all \\(user, item, rating\\)"):
        Ratings.from_triples(triples)


def test_numbers_out_of_range_are_refused():
    r = Ratings.from_triples(TRIPLES)
    for number in (-1, 3, 2**32):
        with pytest.raises(DataError, match="not in 0 to 2"):
            Ratings([number], [0], [1.0], r.users, r.items)


def test_levels_are_those_that_occur():
    assert Ratings.from_triples(TRIPLES).levels.tolist() == [1, 3, 4, 5]


def test_standardized_ratings_have_unit_deviation_and_equal_ones_a_quarter_of_the_scale():
    r = Ratings.from_triples(TRIPLES)
    assert r.std == pytest.approx(np.std([3, 5, 1, 4]))
    standard = r.standardize(r.mean, r.std)
    assert (standard.mean, standard.std) == pytest.approx((0, 1), abs=1e-6)
    assert standard.scale == pytest.approx(((1 - r.mean) / r.std, (5 - r.mean) / r.std), abs=1e-3)
    assert Ratings.from_triples([("a", "x", 3.0), ("b", "x", 3.0)], scale=(1, 5)).std == 1.0


def test_an_empty_part_keeps_users_items_and_scale():
    r = Ratings.from_triples(TRIPLES)
    part = r.select(np.zeros(4, bool))
    assert (len(part), part.n_users, part.scale) == (0, 3, r.scale)
    assert np.isnan(part.mean)
    assert part.of_item(1)[0].size == 0


@given(tables.filter(lambda t: len(t) > 4), st.integers(0, 3))
def test_splits_are_partitions_decided_by_the_seed(table, seed):
    r = make(table)
    whole = as_dict(r)

    def check(train, test):
        assert as_dict(train) | as_dict(test) == whole
        assert len(train) + len(test) == len(whole)
        assert train.users is test.users is r.users

    train, test = split(r, 0.3, seed=seed)
    check(train, test)
    assert len(test) == round(0.3 * len(r))
    assert split(r, 0.3, seed=seed)[1].fingerprint == test.fingerprint
    parts = list(folds(r, 4, seed=seed))
    for pair in parts:
        check(*pair)
    assert sum(len(test) for _, test in parts) == len(r)
    assert max(len(t) for _, t in parts) - min(len(t) for _, t in parts) <= 1
    train, test = split_per_user(r, 1, seed=seed, least=2)
    check(train, test)
    sizes = np.diff(r.user_offsets)
    assert (np.diff(test.user_offsets) == (sizes >= 3)).all()
    times = np.arange(len(r))[::-1] // 2  # two at a time, the first ones last
    train, test = split_last(r, times, 0.25)
    check(train, test)
    for user in range(r.n_users):
        places = sorted(range(*r.user_offsets[user : user + 2]), key=times.__getitem__)
        last = places[len(places) - len(places) // 4 :]
        assert test.of_user(user)[0].tolist() == sorted(r.item_ids[last].tolist())


def test_different_seeds_split_differently():
    r = make({(u, i): 3 for u in range(10) for i in range(9)})
    for cut in (lambda s: split(r, 0.2, seed=s), lambda s: split_per_user(r, 2, seed=s)):
        assert cut(0)[1].fingerprint != cut(1)[1].fingerprint


@pytest.mark.parametrize(
    "held_out",
    [
        lambda r, seed: split(r, 1 / 3, seed=seed)[1],
        lambda r, seed: next(folds(r, 3, seed=seed))[1],
        lambda r, seed: split_per_user(r, 2, seed=seed)[1],
    ],
)
def test_every_choice_of_ratings_is_as_likely(held_out):
    """Chi-square over the 15 pairs of six ratings, which a right draw fails for one in a million seeds."""
    r = Ratings.from_arrays(["u"] * 6, list("abcdef"), np.ones(6))
    found = [held_out(r, seed).item_ids for seed in range(1500)]
    _, counts = np.unique(found, axis=0, return_counts=True)
    assert len(counts) == 15
    assert chisquare(counts).pvalue > 1e-6


def test_splits_that_cannot_be_are_refused():
    r = Ratings.from_triples(TRIPLES)
    for attempt in (
        lambda: split(r, 0.0),
        lambda: split(r, "0.5"),
        *(
            partial(cut, r, seed=seed)
            for cut in (split, folds, split_per_user)
            for seed in (-1, 0.5)
        ),
        lambda: split(r.select([0])),
        lambda: folds(r, 5),
        lambda: split_last(r, [1, 2, None, 4]),
        lambda: split_last(r, [1, 2, "c", None]),
        lambda: split_last(r, np.array([1, "b", 2, 3], object)),
        lambda: folds(r, 1),
        lambda: folds(r, 2.5),
        lambda: split_per_user(r, 0),
        lambda: split_per_user(r, 1.5),
        lambda: split_last(r, np.array([1, 2, np.nan, 4])),
        lambda: split_last(r, np.array([1, 2, "NaT", 4], "datetime64[s]")),
    ):
        with pytest.raises(ConfigurationError):
            attempt()


def test_one_rating_cannot_be_split_into_folds():
    with pytest.raises(ConfigurationError, match="fewer than two ratings cannot be split"):
        folds(Ratings.from_triples([("a", "x", 1.0)]), 2)


def test_times_may_be_objects_that_can_be_compared():
    r = Ratings.from_triples([("a", item, 1.0) for item in "vwxyz"], scale=(1, 5))
    days = [datetime.date(2020, 1, day) for day in (5, 1, 3, 2, 4)]
    for times in (days, np.array([5, 1, 3, 2, 4])):
        _, test = split_last(r, times, 0.4)
        assert r.items.raw[test.item_ids].tolist() == ["v", "z"]


FORMATS = {
    "u.data": ("{}\t{}\t{}\t881250949\n", ""),
    "ratings.dat": ("{}::{}::{}::978300760\n", ""),
    "ratings.csv": ("{},{},{},1112486027\n", "userId,movieId,rating,timestamp\n"),
    "plain.csv": ("{},{},{}\r\n", ""),
    "semicolon.csv": ('"{}";"{}";"{}"\n', '"User-ID";"ISBN";"Rating"\n'),
    "space.txt": ("{} {} {}\n\n", ""),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("suffix", ["", ".xz", ".gz"])
def test_the_usual_formats_are_known_by_their_looks(name, suffix, write_file):
    row, head = FORMATS[name]
    text = head + "".join(row.format(*triple) for triple in TRIPLES)
    pack = {"": bytes, ".xz": lzma.compress, ".gz": gzip.compress}[suffix]
    path = write_file(name + suffix, pack(text.encode()))
    assert read_ratings(path).fingerprint == Ratings.from_triples(TRIPLES).fingerprint


def test_blanks_may_precede_quoted_fields(write_file):
    r = read_ratings(
        write_file("r.csv", '1, "Toy, Story", 5\n2, "Toy, Story", 4\n"2", Heat, "3"\n')
    )
    expected = [("1", "Toy, Story", 5), ("2", "Toy, Story", 4), ("2", "Heat", 3)]
    assert r.fingerprint == Ratings.from_triples(expected).fingerprint


@pytest.mark.parametrize("ids", [[10, 9], [-9, 3, -10, 0]])
def test_integer_ids_of_a_file_are_numbered_by_value(ids, write_file):
    r = read_ratings(write_file("u.data", "".join(f"{user}\t1\t3\n" for user in ids)))
    assert r.users.raw.tolist() == [str(one) for one in sorted(ids)]
    assert r.fingerprint == Ratings.from_arrays(ids, [1] * len(ids), [3] * len(ids)).fingerprint


@pytest.mark.parametrize(
    ("head", "row", "columns"),
    [
        ("", "{2},note,{1},{0}\n", (3, 2, 0)),
        ("rating,user,item,score\n", "0,{0},{1},{2}\n", (1, 2, 3)),
        ("title,user,item\n", "{0},{1},{2}\n", (0, 1, 2)),
    ],
)
def test_columns_that_are_given_may_stand_anywhere_and_have_any_names(
    head, row, columns, write_file
):
    path = write_file("r.csv", head + "".join(row.format(*triple) for triple in TRIPLES))
    expected = Ratings.from_triples(TRIPLES).fingerprint
    assert read_ratings(path, columns=columns).fingerprint == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no ratings"),
        (b"user,item,rating\n", "no ratings"),
        (b"1\t2\t3\n1\t3\n", "line 2: 2 fields where 3 are needed"),
        (b"1\t2\t3\n1\t3\tx\n", "line 2: the rating 'x' is not a number"),
        (b"1\t2\t1_0\n1\t3\t4\n1\t4\t1_0\n", "line 1: the rating '1_0' is not a number"),
        (b"1;2;3,5\n1;3;4\n", "line 1: 2 fields where 3 are needed"),
        (b"1\t2\t\n1\t3\t4\n", "line 1: the rating '' is not a number"),
        (b"1\t2\tNA\n1\t3\t4\n", "line 1: the rating 'NA' is not a number"),
        (b"1\t2\t4 stars\n1\t3\t4\n", "line 1: the rating '4 stars' is not a number"),
        (
            b"rating,userId,movieId\n3,1,7\n",
            "column 'userId' of the header is in place 1 and not 0",
        ),
        (b"user,item,time,rating\n3,1,7,4\n", "column 'rating' .* is in place 3 and not 2"),
        (b"1\t2\t3\n1\t" + b"x" * 1001 + b"\t4\n", "line 2: an id of 1,001 characters"),
        (b"1\t2\tnan\n1\t3\t4\n", "line 1: the rating 'nan' is not finite"),
        (b"1\t2\t-inf\n1\t3\t4\n", "line 1: the rating '-inf' is not finite"),
        (b"1\t2\t1e39\n1\t3\t4\n", r"line 1: the rating '1e39' is too large, beyond 1e\+38"),
        (b"1\t2\t3\n1\t2\t4\n", "more than once"),
        (b"1\t2\t3\n\t2\t4\n", "an empty user id"),
        ("1\tAmélie\t3\n".encode("latin-1"), "utf-8 at line 1"),
    ],
)
def test_a_file_that_cannot_be_read_says_where_and_why(content, message, write_file):
    path = write_file("ratings", content)
    with pytest.raises(DataError, match=message) as caught:
        read_ratings(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"separator": ""},
        {"separator": 3},
        {"columns": (0, 1)},
        {"columns": (0, 1, -1)},
        {"columns": (0, 0, 2)},
        {"columns": 3},
    ],
)
def test_options_that_cannot_be_are_refused_by_name(options, write_file):
    path = write_file("ratings", "1\t2\t3\n")
    [name] = options
    with pytest.raises(DataError, match=f"^{name} is "):
        read_ratings(path, **options)


MISSING, FLOATS = (
    "id number 2 is missing, it is .*: give the id",
    "ids are floats; give integers or str",
)
LONG, NULL = "id number 2 has 1,001 characters", "id number 2, .* ends in a null character"


@pytest.mark.parametrize("kind", [lambda ids: ids, lambda ids: np.array(ids, object)])
@pytest.mark.parametrize(
    ("ids", "said"),
    [
        *((["a", missing], MISSING) for missing in (None, np.nan, np.datetime64("NaT"))),
        *((ids, FLOATS) for ids in ([1.5, 2.0], ["a", 2.0], np.array([1.0, 2.0], np.float32))),
        *((kind(["a", "x" * 1001]), LONG) for kind in (list, np.array)),  # which widens all others
        (["a", "a\0"], NULL),  # which NumPy would shorten
        *((kind([b"a", b"b"]), "id number 1 is bytes, b'a': decode") for kind in (list, np.array)),
        *(
            (ids, "id number 2 is several, .*: give one")
            for ids in (["a", ["b"]], [1, np.zeros(2)])
        ),
        ([["a"], ["b"]], "id number 1 is several"),
    ],
)
def test_what_is_no_id_is_refused(ids, said, kind):
    for make in (IdIndex, number_ids):
        with pytest.raises(DataError, match=f"^user {said}"):
            make(kind(ids), "user")
    with pytest.raises(DataError, match=f"^item {said}"):
        Ratings.from_arrays([1, 2], kind(ids), [1.0, 2.0])
    with pytest.raises(DataError, match=f"^user {said}"):
        from_columns(list(ids), [1, 2], [1.0, 2.0])


def test_what_looks_like_no_id_may_be_one():
    assert len(Ratings.from_triples([("None", "nan", 1.0)])) == 1
    for raw in (["a\0b"], np.array(["a\0b"], object), np.array(["a\0b"], "U1001")):
        assert number_ids(raw, "user")[0].raw.tolist() == ["a\0b"]


SHOPS = Enum("Shop", {"NORTH": "n", "SOUTH": "s"}, type=str)
SHELVES = Enum("Shelf", {"TOP": 2, "LOW": 1}, type=int)
Place = namedtuple("Place", "shop shelf")


@pytest.mark.parametrize(
    "raw", [list(SHOPS), list(SHELVES), [True, 2], [np.True_, 2], [Place(1, 2), Place(1, 3)]]
)
def test_an_id_is_the_text_that_str_gives(raw):
    text = [str(one) for one in raw]
    for ids in (raw, tuple(raw)):
        index, numbers = number_ids(ids, "user")
        assert index.raw[numbers].tolist() == IdIndex(ids, "user").raw.tolist() == text
        assert [index.find(one) for one in ids] == numbers.tolist()
    found = Ratings.from_arrays(raw, raw, [1.0, 2.0])
    assert sorted(found.users.raw) == sorted(found.items.raw) == sorted(text)


@pytest.mark.parametrize(
    "raw", ["abc", np.str_("abc"), b"abc", 7, np.array([["a", "b"]]), np.zeros((2, 2), int)]
)
def test_ids_that_are_no_list_are_refused(raw):
    for make in (IdIndex, number_ids):
        with pytest.raises(DataError, match=r"^user ids have [02] dimensions; give a list"):
            make(raw, "user")


@pytest.mark.parametrize(
    "raw",
    [
        np.array([10, 9, 100], object),
        [10, 2**63 - 1, 2**63],
        (2**63, -1, 2**64 - 1),
        [np.int64(-3), np.uint64(2**63), np.int8(5)],
        [10**30, 5, 40],
    ],
)
def test_integers_are_numbered_by_value_whatever_their_types(raw):
    index, numbers = number_ids(raw, "user")
    assert index.raw.tolist() == [str(one) for one in sorted(map(int, raw))]
    assert index.raw[numbers].tolist() == [str(one) for one in raw]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((["a\nb", "c"], ["x", "y"]), (["a", "b\nc"], ["x", "y"])),
        ((["a", "b"], ["x\0", "y"]), (["a", "b\0"], ["x", "y"])),
        ((["a", "b"], ["x", "\ud800"]), (["a", "b"], ["x", "\ud801"])),
    ],
)
def test_the_fingerprint_tells_ids_apart(one, other):
    found = []
    for users, items in (one, other):
        ids = IdIndex([], "user"), IdIndex([], "item")
        for index, raw in zip(ids, (users, items), strict=True):
            index.raw = np.array(raw, object)  # also ids that an index refuses
        found.append(Ratings([0, 1], [0, 1], [1, 2], *ids).fingerprint)
    assert found[0] != found[1]


@pytest.mark.parametrize("fraction", [0.1, 0.29, 0.57, 0.7])
def test_the_last_share_of_the_ratings_is_exact(fraction):
    for n in (10, 90, 100):
        ratings = Ratings.from_arrays(["u"] * n, list(range(n)), np.ones(n))
        _, test = split_last(ratings, np.arange(n), fraction)
        assert len(test) == round(fraction * 100) * n // 100


def test_another_encoding_can_be_named(write_file):
    path = write_file("ratings", "1\tAmélie\t3\n".encode("latin-1"))
    assert read_ratings(path, encoding="latin-1").items.raw.tolist() == ["Amélie"]
    with pytest.raises(DataError, match=r"is not utf-8 at line 1.*\); name its encoding$"):
        read_ratings(path)


def test_missing_files_folders_and_broken_archives_get_clear_errors(write_file, tmp_path):
    broken = write_file("r.xz", lzma.compress(b"1\t2\t3\n" * 10)[:-9])
    for path in (tmp_path / "none", tmp_path, broken):
        with pytest.raises(DataError):
            read_ratings(path)


@pytest.mark.data
@pytest.mark.skipif("TACENDA_DATA" not in os.environ, reason="TACENDA_DATA is not set")
def test_movielens_has_the_published_numbers():
    folder = Path(os.environ["TACENDA_DATA"]) / "ratings" / "ml-100k"
    if not folder.is_dir():
        pytest.skip("no ml-100k in TACENDA_DATA")
    r = read_ratings(folder / "u.data", scale=(1, 5))
    assert (len(r), r.n_users, r.n_items) == (100_000, 943, 1682)
    assert r.mean == pytest.approx(3.52986)
    assert np.diff(r.user_offsets).min() == 20


@settings(max_examples=50)
@given(st.integers(0, 12), st.integers(1, 9), st.integers(0, 2**32))
def test_from_csr_and_by_item_are_what_the_triples_say(n_users, n_items, seed):
    rng = np.random.default_rng(seed)
    rated = rng.random((n_users, n_items)) < 0.4
    users, items = np.nonzero(rated)
    values = rng.integers(1, 6, len(users)).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(rated.sum(axis=1))])
    who, what = IdIndex(range(n_users), "user"), IdIndex(range(n_items), "item")
    found = Ratings.from_csr(offsets, items, values, who, what, scale=(1, 5))
    shuffled = rng.permutation(len(users))
    same = Ratings(users[shuffled], items[shuffled], values[shuffled], who, what, scale=(1, 5))
    assert found.fingerprint == same.fingerprint
    np.testing.assert_array_equal(found.item_counts, rated.sum(axis=0))
    assert found.by_item.item_ids.dtype == np.int32
    assert found.by_item.user_offsets.dtype == np.int64


@pytest.mark.parametrize(
    "offsets", [[0, 1], [0, 2, 1, 2], [1, 1, 1, 2], [0, 1, 1, 1], [0, 2**63 - 1, -2, 2]]
)
def test_offsets_that_do_not_fit_are_refused(offsets):
    who, what = IdIndex(["a", "b", "c"], "user"), IdIndex(["x", "y"], "item")
    with pytest.raises(DataError, match="user offsets must ascend from 0 to 2 in 3 steps"):
        Ratings.from_csr(offsets, [0, 1], [1.0, 2.0], who, what)


def test_items_out_of_order_in_a_row_are_put_in_order():
    who, what = IdIndex(["a"], "user"), IdIndex(["x", "y"], "item")
    found = Ratings.from_csr([0, 2], [1, 0], [1.0, 2.0], who, what)
    assert found.item_ids.tolist() == [0, 1]
    assert found.values.tolist() == [2, 1]
