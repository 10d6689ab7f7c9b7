"""examples/served_ratings: visitors are answered as the model itself answers, from many threads at once."""

import runpy
import threading
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("tacenda_surprise")

SCRIPT = Path(__file__).parents[1] / "examples" / "served_ratings" / "serve.py"


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def model(example):
    return example["make_model"](None)


@pytest.fixture(scope="module")
def port(example, model):
    with example["make_server"](model) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_many_visitors_at_once_get_what_the_model_says(example, model, port):
    items = list(model.catalogue.items.raw)
    requests = [
        {"ratings": {items[k]: 5.0, items[k + 1]: 1.0}, "chosen": [items[k + 2]], "n": 4}
        for k in range(40)
    ]
    before = model.learned
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda request: example["ask"](port, request), requests))
    for request, found in zip(requests, answers, strict=True):
        expected = model.fold_in(request["ratings"], request["chosen"]).top_n(4)
        assert [one["item"] for one in found["items"]] == [item for item, _ in expected]
        assert [one["estimate"] for one in found["items"]] == [round(e, 2) for _, e in expected]
    assert model.learned is before
    assert not model._new_users


@pytest.mark.parametrize(
    "request_", [{"ratings": {"nothing": 5}}, {"ratings": {"item 1": 99}}, {"n": 0}, []]
)
def test_a_request_that_makes_no_sense_gets_a_sentence(example, port, request_):
    with pytest.raises(urllib.error.HTTPError) as found:
        example["ask"](port, request_)
    assert found.value.code == 400
    assert b"error" in found.value.read()


def test_how_long_answers_take_is_measured(example, model, port):
    example["measure"].__globals__["REQUESTS"] = 16
    assert "16 requests from 8 threads" in example["measure"](model, port)
