"""A web server on the loopback address whose manners a test can choose, and clean data folders."""

import functools
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tacenda import datasets, plugins


class Resource:
    """What one path serves.

    ``failures`` are served first, one a request: a status code, or ``("drop", n)`` to close the
    connection after ``n`` bytes of the body.
    """

    def __init__(self, body, *, failures=(), length=True, location=None, encoding=None):
        self.body, self.encoding = body, encoding
        self.failures, self.length, self.location = list(failures), length, location


class Server:
    def __init__(self):
        self.resources = {}
        self.requests = []
        handler = functools.partial(_Handler, self)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def root(self):
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def serve(self, path, body, **manners):
        self.resources[path] = Resource(body, **manners)
        return self.root + path

    def close(self):
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, server, *args):
        self.here = server
        super().__init__(*args)

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.here.requests.append((self.path, dict(self.headers)))
        resource = self.here.resources.get(self.path)
        failure = resource.failures.pop(0) if resource and resource.failures else None
        if resource is None or isinstance(failure, int):
            self.send_error(404 if resource is None else failure)
            return
        if resource.location:
            self.send_response(302)
            self.send_header("Location", resource.location)
            self.end_headers()
            return
        self.send_response(200)
        if resource.length:
            self.send_header("Content-Length", str(len(resource.body)))
        if resource.encoding:
            self.send_header("Content-Encoding", resource.encoding)
        self.end_headers()
        self.wfile.write(resource.body[: failure[1]] if failure else resource.body)
        self.close_connection = True


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture
def data_folders(tmp_path, monkeypatch):
    """(TACENDA_DATA, the cache's folder of datasets), both empty; nothing of the user's is
    touched.
    """
    data, cache = tmp_path / "data", tmp_path / "cache"
    data.mkdir()
    monkeypatch.setenv("TACENDA_DATA", str(data))
    monkeypatch.setenv("TACENDA_CACHE", str(cache))
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    return data, cache / "datasets"


def _spec(**settings):
    usual = {
        "name": "toy",
        "title": "A toy",
        "license": "CC0",
        "license_text": "Do as you like.",
        "homepage": "https://example.invalid",
        "files": {"train": ("train.txt",), "test": ("test.txt", "test.txt.xz")},
        "folders": ("text/toy", "toy-corpus*"),
    }
    return datasets.DatasetSpec(**usual | settings)


@pytest.fixture
def make_spec():
    """Makes a sound entry called toy; keywords change it."""
    return _spec


@pytest.fixture
def register():
    """Registers specs, one plugin each, and takes them back afterwards."""
    taken = []

    def add(*specs, **settings):
        if not specs:
            specs = (_spec(**settings),)
        name = f"test-{len(taken)}"
        plugins.register("datasets", name, list(specs))
        taken.append(name)
        return specs[0]

    yield add
    for name in taken:
        plugins.unregister("datasets", name)
