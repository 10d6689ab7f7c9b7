import pytest

from tacenda import datasets
from tacenda.errors import DataError

SPLITS = ("train", "dev", "test")
WIKITEXT = ("train.txt.xz", "valid.txt", "test.txt")


def put(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


@pytest.mark.parametrize(
    ("dataset", "role", "files"),
    [
        ("ml-100k", "ratings", ["ratings/ml-100k/u.data"]),
        ("ml-100k", "ratings", ["ml-100k/u.data"]),
        ("ml-1m", "ratings", ["ml-1m/ratings.dat"]),
        ("ml-1m", "ratings", ["ratings/ml-1m/ratings-no-time.tsv.xz"]),
        ("wikitext-2", "dev", [f"wikitext-2/wiki.{s}.tokens" for s in ("train", "valid", "test")]),
        ("wikitext-2", "train", ["lm/wikitext-2/" + s for s in WIKITEXT]),
        ("ptb", "dev", [f"simple-examples/data/ptb.{s}.txt" for s in ("train", "valid", "test")]),
        ("ud-english-ewt", "train", [f"UD_English-EWT/en_ewt-ud-{s}.conllu" for s in SPLITS]),
        ("ud-finnish-tdt", "test", [f"ud/UD_Finnish-TDT/fi_tdt-ud-{s}.conllu" for s in SPLITS[1:]]),
        ("treebank-sample", "trees", ["corpora/treebank/combined/wsj_0001.mrg"]),
        ("conll2003", "dev", [f"conll2003/eng.{s}" for s in ("train", "testa", "testb")]),
        ("wordsim", "ws353", ["wordsim/EN-WS-353-ALL.txt"]),
    ],
)  # fmt: skip
def test_official_and_collected_layouts_are_understood(data_folders, dataset, role, files):
    put(data_folders[0], *files)
    found = datasets.locate(dataset)
    assert found.source == "TACENDA_DATA"
    assert found[role].exists()
    assert found[role].is_relative_to(found.path)


def test_half_a_dataset_is_not_taken_for_the_whole(data_folders):
    put(data_folders[0], "ptb/ptb.train.txt", "ptb/ptb.test.txt")
    with pytest.raises(DataError, match="ptb is not in TACENDA_DATA or in the cache: run"):
        datasets.locate("ptb")


def test_a_role_that_this_copy_lacks_is_named(data_folders):
    put(data_folders[0], *(f"ud/UD_Finnish-TDT/fi_tdt-ud-{s}.conllu" for s in ("dev", "test")))
    with pytest.raises(DataError, match="no 'train' file of ud-finnish-tdt: it has dev, test"):
        datasets.locate("ud-finnish-tdt")["train"]


def test_the_latest_release_is_taken_where_there_are_several(data_folders):
    for release in ("ud-treebanks-v2.9", "ud-treebanks-v2.16"):
        put(data_folders[0], f"{release}/UD_German-PUD/de_pud-ud-test.conllu")
    assert "v2.16" in str(datasets.locate("ud-german-pud").path)


def test_tacenda_data_comes_before_the_cache_and_the_cache_before_nothing(data_folders):
    data, cache = data_folders
    put(cache, "ml-100k/ml-100k/u.data")
    assert datasets.locate("ml-100k").source == "cache"
    put(data, "ml-100k/u.data")
    assert datasets.locate("ml-100k").source == "TACENDA_DATA"


def test_without_tacenda_data_only_the_cache_is_searched(data_folders, monkeypatch):
    monkeypatch.delenv("TACENDA_DATA")
    with pytest.raises(DataError, match="is not in the cache: run `tacenda data fetch ml-100k`"):
        datasets.locate("ml-100k")


def test_a_tacenda_data_that_is_no_folder_is_named(data_folders, monkeypatch):
    monkeypatch.setenv("TACENDA_DATA", str(data_folders[0] / "nowhere"))
    with pytest.raises(DataError, match="nowhere, which is not a folder"):
        datasets.locate("ml-100k")
