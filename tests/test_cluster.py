"""A Dask cluster of real processes: workers that die, come late or have nothing to do change no count."""

import os
import signal
import threading

import numpy as np
import pytest

import tacenda
from support.processes import command_line
from tacenda import Corpus
from tacenda_embeddings.lds.lagged_counts import LaggedCounts
from tacenda_lm import KneserNey

distributed = pytest.importorskip("distributed", reason="needs tacenda[dask]")

import tacenda_embeddings.dask  # noqa: E402
import tacenda_lm.dask  # noqa: E402
from tacenda.dask import ClusterCorpus  # noqa: E402


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2)
        yield client


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rng = np.random.default_rng(0)
    lines = (rng.zipf(1.4, rng.integers(0, 12)) % 200 for _ in range(600))
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(" ".join(f"w{i}" for i in line) + "\n" for line in lines))
    return path


def assert_models_of_one_machine(corpus, path):
    """Both models of the corpus are those of the file."""
    whole = Corpus.from_text(path)
    counts = tacenda_embeddings.dask.count_lags(corpus, 3)
    for ours, theirs in zip(counts.lags, LaggedCounts.from_corpus(whole, 3).lags, strict=True):
        assert all(map(np.array_equal, ours, theirs))
    model = tacenda_lm.dask.fit(KneserNey(order=3), corpus)
    for name, array in KneserNey(order=3).fit(whole).arrays().items():
        assert np.array_equal(model.arrays()[name], array), name


def dying(mark):
    """A tokenizer that kills its process once: when it has first read many lines, and nobody has died yet."""
    n_lines = 0

    def split(line):
        nonlocal n_lines
        n_lines += 1
        if n_lines > 200 and not os.path.exists(mark):  # noqa: PTH110
            with open(mark, "w"):  # noqa: PTH123
                os.kill(os.getpid(), signal.SIGKILL)
        return line.split()

    split.name = "whitespace"
    return split


def test_a_worker_that_dies_while_it_reads_loses_nothing(client, file, tmp_path):
    mark = str(tmp_path / "died")
    corpus = ClusterCorpus.from_text(
        file, client=client, tokenizer=dying(mark), partition_bytes=4000
    )
    assert os.path.exists(mark)  # noqa: PTH110
    assert_models_of_one_machine(corpus, file)


def test_a_worker_that_dies_with_its_parts_loses_nothing(client, cluster, file):
    corpus = ClusterCorpus.from_text(file, client=client, partition_bytes=4000)
    holders = {worker for workers in client.who_has(corpus.parts).values() for worker in workers}
    assert len(holders) == 2
    os.kill(cluster.workers[0].pid, signal.SIGKILL)
    assert_models_of_one_machine(corpus, file)


def test_workers_that_die_while_they_count_lose_nothing(client, cluster, file):
    corpus = ClusterCorpus.from_text(file, client=client, partition_bytes=1000)
    killer = threading.Timer(0.2, os.kill, (cluster.workers[1].pid, signal.SIGKILL))
    killer.start()
    assert_models_of_one_machine(corpus, file)
    killer.join()


def test_a_worker_that_joins_late_helps_and_one_without_data_does_no_harm(client, cluster, file):
    corpus = ClusterCorpus.from_text(file, client=client, partition_bytes=10**6)  # a single part
    cluster.scale(3)
    client.wait_for_workers(3)
    assert_models_of_one_machine(corpus, file)
    cluster.scale(2)


@pytest.fixture
def run(monkeypatch, capsys):
    return command_line(monkeypatch, capsys)


@pytest.mark.parametrize(
    ("command", "options"), [("lm", ["--order", 3]), ("embed", ["--n-states", 4, "--no-digits"])]
)
def test_the_command_line_saves_the_model_of_one_machine(
    run, command, options, cluster, client, file, tmp_path
):
    fit = [command, "fit", "--text", file.parent / "*.txt", *options, "--output"]
    run.well(*fit, tmp_path / "there", "--scheduler", cluster.scheduler_address)
    run.well(*fit, tmp_path / "here")
    there, here = tacenda.load(tmp_path / "there"), tacenda.load(tmp_path / "here")
    for name, array in here.arrays().items():
        assert np.array_equal(there.arrays()[name], array), name
    assert there.fitted_on == here.fitted_on


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lm", "fit", "--model", "hlbl"], "trained in steps"),
        (["embed", "fit", "--model", "varembed"], "trained in steps"),
        (["lm", "fit", "--checkpoints", "x"], "leave out checkpoints"),
        (["lm", "fit", "--scheduler", "nonsense://x:1"], "no Dask scheduler answers at"),
    ],
)
def test_what_no_cluster_can_do_is_said_before_the_work(run, arguments, message, file, tmp_path):
    where = ["--scheduler", "local"] if "--scheduler" not in arguments else []
    err = run.refusal(*arguments, *where, "--text", file, "--output", tmp_path / "model")
    assert message in err


def test_text_at_an_address_is_read_without_a_cluster_too(run, file, tmp_path):
    for text, output in ((f"file://{file.parent}/*.txt", "there"), (file, "here")):
        run.well("lm", "fit", "--text", text, "--output", tmp_path / output)
    there, here = tacenda.load(tmp_path / "there"), tacenda.load(tmp_path / "here")
    assert all(np.array_equal(there.arrays()[name], a) for name, a in here.arrays().items())
