import dataclasses

import pytest

from support.plugins import registered
from tacenda import datasets, plugins
from tacenda.datasets.catalogue import BUILTIN
from tacenda.errors import DataError


def test_the_core_registers_its_datasets_through_the_entry_point():
    assert {spec.name for spec in BUILTIN} <= {spec.name for spec in datasets.available()}
    assert ("datasets", "builtin") in {(r.kind, r.name) for r in plugins.available("datasets")}


def test_names_are_in_order():
    listed = [spec.name for spec in datasets.available()]
    assert listed == sorted(listed)


@pytest.mark.parametrize("spec", BUILTIN, ids=lambda spec: spec.name)
def test_every_entry_of_ours_states_terms_and_an_official_home(spec):
    assert spec.title
    assert spec.license
    assert spec.license_text
    assert spec.homepage.startswith("http")
    urls = [url for download in spec.downloads for url in download.urls]
    assert all("127.0.0.1" not in url and "localhost" not in url for url in urls)
    assert spec.optional < spec.files.keys()  # one role at least is always there


def test_a_third_party_registers_one_dataset_or_a_list(register, make_spec):
    register(make_spec(name="one", obtain="ask"), make_spec(name="two", obtain="ask"))
    names = ["one", "two", "three"]
    with registered("datasets", "alone", make_spec(name="three", obtain="ask")):
        assert [datasets.get(name).name for name in names] == names


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(DataError, match="no dataset 'wikitext2': did you mean wikitext-2"):
        datasets.get("wikitext2")
    with pytest.raises(DataError, match="tacenda data list"):
        datasets.locate("qqqqqq")
    with pytest.raises(DataError, match="no dataset None"):
        datasets.locate(None)


def test_a_name_claimed_twice_raises_only_when_it_is_asked_for(register, make_spec):
    register(make_spec(obtain="ask"))
    rival = make_spec(obtain="no")
    with registered("datasets", "rival", rival, distribution="rival-corpora"):
        assert datasets.get("ptb").name == "ptb"
        with pytest.raises(DataError, match="is registered by <runtime> and rival-corpora: uninst"):
            datasets.get("toy")


@pytest.mark.parametrize("broken", [object(), ["not a spec"], 3, None])
def test_a_broken_plugin_disturbs_no_other(broken):
    warned = pytest.warns(UserWarning, match="datasets left out")
    with registered("datasets", "broken", broken), warned:
        assert datasets.get("ptb").name == "ptb"


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../evil"},
        {"name": "Big"},
        {"name": ""},
        {"files": {}},
        {"files": {"train": ()}},
        {"files": {"train": "train.txt"}},
        {"folders": "text/toy"},
        {"optional": "train"},
        {"downloads": datasets.Download(urls=("https://a.invalid/x",))},
        {"obtain": ""},
    ],
)
def test_an_entry_that_cannot_work_is_refused(make_spec, change):
    with pytest.raises(DataError, match="dataset"):
        make_spec(**{"obtain": "ask"} | change)


@pytest.mark.parametrize(
    "change",
    [
        {"urls": ()},
        {"urls": "https://a.invalid/x"},
        {"urls": 5},
        {"urls": (5,)},
        {"members": "*.txt"},
        {"urls": ("file:///etc/passwd",)},
        {"urls": ("http://[x",)},
        {"urls": ("https://a.invalid/x", "ftp://a.invalid/x")},
        {"filename": "../x"},
        {"filename": ".hidden"},
        {"filename": "a/b"},
        {"hash": "sha256:123"},
        {"hash": "crc32:12345678"},
    ],
)
def test_a_download_that_cannot_work_is_refused(change):
    usual = {"urls": ("https://a.invalid/x",), "filename": "x"}
    datasets.Download(**usual)
    with pytest.raises(DataError):
        datasets.Download(**usual | change)


def test_the_size_is_known_only_if_every_part_of_it_is(make_spec):
    one = datasets.Download(urls=("https://a.invalid/x",), filename="x", size=3)
    two = dataclasses.replace(one, filename="y", size=4)
    assert make_spec(downloads=(one, two)).size == 7
    assert make_spec(downloads=(one, dataclasses.replace(two, size=None))).size is None
    assert make_spec(obtain="ask").size is None
