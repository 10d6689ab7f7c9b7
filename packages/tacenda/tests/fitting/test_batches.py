import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from tacenda.errors import ConfigurationError
from tacenda.fitting import ArrayBatches, BlockBatches, Sweeps, batches

sizes = st.integers(1, 40)


def flat(batches):
    return np.concatenate([np.atleast_1d(batch) for batch in batches]).tolist()


@given(n=sizes, batch=sizes, seed=st.integers(0, 5), epoch=st.integers(0, 3))
def test_every_row_comes_once_an_epoch(n, batch, seed, epoch):
    source = ArrayBatches(np.arange(n), np.arange(n) * 2, batch_size=batch, seed=seed)
    batches = list(source.batches(epoch))
    assert len(batches) == source.n_batches(epoch)
    assert sorted(flat(rows for rows, _ in batches)) == list(range(n))
    assert all((2 * rows == twice).all() for rows, twice in batches)


def assert_whole_blocks(source, lengths, batch, epoch):
    """Every block that is not empty comes once, and no batch goes on when it is full; return the batches."""
    found = list(source.batches(epoch))
    assert len(found) == source.n_batches(epoch)
    assert sorted(flat(found)) == np.flatnonzero(lengths).tolist()
    units = [np.array(lengths)[blocks].tolist() for blocks in found]
    assert all(sum(each) >= batch for each in units[:-1])
    assert all(sum(each[:-1]) < batch for each in units)
    return found


@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=30).filter(any),
    batch=sizes,
    epoch=st.integers(0, 3),
)
def test_blocks_come_whole_once_and_fill_the_batch(lengths, batch, epoch):
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    assert_whole_blocks(BlockBatches(offsets, batch_size=batch), lengths, batch, epoch)


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_blocks_that_are_shuffled_in_parts_make_the_same_kind_of_batches(monkeypatch, batch):
    lengths = np.random.default_rng(0).integers(0, 5, 50)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    monkeypatch.setattr(batches, "_BLOCKS_PER_SHUFFLE", 8)
    source = BlockBatches(offsets, batch_size=batch)
    found = [blocks.tolist() for blocks in assert_whole_blocks(source, lengths, batch, 1)]
    assert flat(source.batches(1)) != flat(source.batches(2))
    for skip in (1, 2, len(found)):
        assert [blocks.tolist() for blocks in source.batches(1, skip)] == found[skip:]


def test_of_many_blocks_a_stretch_is_shuffled_at_a_time(monkeypatch):
    monkeypatch.setattr(batches, "_BLOCKS_PER_SHUFFLE", 1000)
    order = np.concatenate(list(BlockBatches(np.arange(20_001), batch_size=50).batches(0)))
    stretches = order.reshape(20, 1000)
    assert (stretches // 1000 == stretches[:, :1] // 1000).all()
    assert (np.diff(order) != 1).mean() > 0.9
    assert np.array_equal(np.sort(order), np.arange(20_000))


SOURCES = [
    lambda seed: ArrayBatches(np.arange(23), batch_size=4, seed=seed),
    lambda seed: BlockBatches(np.arange(0, 47, 2), batch_size=5, seed=seed),
]


@pytest.mark.parametrize("make", SOURCES)
def test_an_epoch_can_be_entered_in_the_middle(make):
    source = make(0)
    whole = [str(batch) for batch in source.batches(2)]
    assert [str(batch) for batch in source.batches(2, skip=3)] == whole[3:]
    assert list(source.batches(2, skip=len(whole))) == []


@pytest.mark.parametrize("make", SOURCES)
def test_order_depends_on_seed_and_epoch_only(make):
    def order(source, epoch):
        return str(list(source.batches(epoch)))

    assert order(make(0), 1) == order(make(0), 1)
    assert order(make(0), 1) != order(make(1), 1)
    assert order(make(0), 1) != order(make(0), 2)


@pytest.mark.parametrize("over", ["seeds", "epochs"])
def test_every_order_is_as_likely(over):
    """Chi-square over the 24 orders of four rows, which a right shuffle fails for one in a million seeds."""
    rows = np.arange(4)
    if over == "seeds":
        found = [flat(ArrayBatches(rows, batch_size=4, seed=n).batches(3)) for n in range(2400)]
    else:
        source = BlockBatches(np.arange(5), batch_size=4, seed=3)
        found = [flat(source.batches(epoch)) for epoch in range(2400)]
    _, counts = np.unique(np.reshape(found, (-1, 4)), axis=0, return_counts=True)
    assert len(counts) == 24
    assert chisquare(counts).pvalue > 1e-6


def test_sweeps_number_themselves():
    assert list(Sweeps().batches(2)) == [2]
    assert list(Sweeps().batches(2, skip=1)) == []


def test_fingerprints_tell_data_and_settings_apart():
    data = np.arange(20)
    other = np.where(data == 7, 8, data)
    sources = [
        ArrayBatches(data, batch_size=4),
        ArrayBatches(other, batch_size=4),
        ArrayBatches(data, batch_size=5),
        ArrayBatches(data, batch_size=4, seed=1),
        ArrayBatches(data.astype(np.int32), batch_size=4),
        Sweeps("a"),
        Sweeps("b"),
    ]
    assert len({source.fingerprint() for source in sources}) == len(sources)
    assert ArrayBatches(data.copy(), batch_size=4).fingerprint() == sources[0].fingerprint()


@pytest.mark.parametrize(
    "make",
    [
        lambda: ArrayBatches(np.arange(3), np.arange(4), batch_size=2),
        lambda: ArrayBatches(np.arange(3), batch_size=0),
        lambda: ArrayBatches(np.arange(3), batch_size=1.5),
        lambda: ArrayBatches(np.arange(3), batch_size=2, seed=-1),
        lambda: BlockBatches([0, 3], batch_size=2, seed=None),
        lambda: BlockBatches([0, 3], batch_size="2"),
        lambda: ArrayBatches(np.arange(0), batch_size=2),
        lambda: BlockBatches(np.zeros(3, int), batch_size=2),
        lambda: BlockBatches([], batch_size=2),
    ],
)
def test_sources_that_have_no_batches_to_draw_are_refused(make):
    with pytest.raises(ConfigurationError):
        make()


def test_the_batches_of_an_epoch_are_counted_once(monkeypatch):
    source = BlockBatches(np.arange(0, 1001, 10), batch_size=50)
    shuffles, batches = [], source.batches
    monkeypatch.setattr(source, "batches", lambda epoch: shuffles.append(epoch) or batches(epoch))
    assert [source.n_batches(epoch) for epoch in (0, 0, 1, 1)] == [20] * 4
    assert shuffles == [0, 1]
