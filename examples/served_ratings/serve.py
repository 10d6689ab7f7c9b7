"""Recommendations over HTTP, with the standard library alone: a visitor sends a few ratings and gets a list back.

    python examples/served_ratings/serve.py [--model FOLDER] [--port 8000]
    curl -d '{"ratings": {"item 3": 5, "item 8": 1}}' localhost:8000/recommend

FOLDER is a saved rating model, as `tacenda ratings fit` writes; without one the server fits a model to made-up ratings.
``--measure`` asks the server from eight threads instead, and prints how long answers take.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from tacenda.datasets import synthetic_ratings
from tacenda.errors import TacendaError
from tacenda.ratings import Ratings
from tacenda_surprise import ConditionalPMF, RatingAlgorithm

THREADS, REQUESTS = 8, 400
LONGEST = 100_000  # bytes of a request


def make_model(folder: str | None) -> RatingAlgorithm:
    """Load a model, or fit one, and prepare it for its first request."""
    if folder is not None:
        model = RatingAlgorithm.load(folder)
    else:
        made = synthetic_ratings.generate(500, 400, 20_000, seed=0).ratings
        users, items = (
            [f"{what} {n}" for n in numbers]
            for what, numbers in (("user", made.user_ids), ("item", made.item_ids))
        )
        ratings = Ratings.from_arrays(users, items, made.values, scale=made.scale)
        model = ConditionalPMF(random_state=0).fit(ratings)
    answer(model, {"ratings": {}})  # what lists are ranked by is found at the first request
    return model


def answer(model: RatingAlgorithm, request: dict[str, Any]) -> dict[str, Any]:
    """Recommend items to a new user, without changing the model."""
    visitor = model.fold_in(request.get("ratings", {}), request.get("chosen", []))
    best = visitor.top_n(int(request.get("n", 10)))
    return {"items": [{"item": item, "estimate": round(estimate, 2)} for item, estimate in best]}


class Handler(BaseHTTPRequestHandler):
    """Answers POST /recommend."""

    model: RatingAlgorithm
    protocol_version = "HTTP/1.1"  # a client may ask again without connecting again

    def do_POST(self) -> None:
        """Answer with a list, or with one sentence that says what is wrong with the request."""
        status, found = 200, {}
        try:
            length = int(self.headers.get("Content-Length", 0))
            if self.path != "/recommend" or not 0 < length <= LONGEST:
                raise ValueError("POST a JSON object to /recommend")
            found = answer(self.model, json.loads(self.rfile.read(length)))
        except (TacendaError, ValueError, TypeError, AttributeError) as error:
            status, found = 400, {"error": str(error)}
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def make_server(model: RatingAlgorithm, port: int = 0) -> ThreadingHTTPServer:
    """Make a server, which answers each connection in a separate thread; port 0 means any free one."""
    return ThreadingHTTPServer(("127.0.0.1", port), type("Own", (Handler,), {"model": model}))


def ask(port: int, request: dict[str, Any]) -> dict[str, Any]:
    """Send a request as a client does."""
    url, body = f"http://127.0.0.1:{port}/recommend", json.dumps(request).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=30) as reply:
        found: dict[str, Any] = json.load(reply)
    return found


def measure(model: RatingAlgorithm, port: int) -> str:
    """Send requests with different ratings from eight threads, and report the response times."""
    items, scale = list(model.catalogue.items.raw), model.catalogue.scale
    rng = np.random.default_rng(0)

    def once(number: int) -> float:
        chosen = rng.choice(items, 5, replace=False).tolist()
        start = time.perf_counter()
        ask(port, {"ratings": dict.fromkeys(chosen, scale[number % 2])})
        return time.perf_counter() - start

    with ThreadPoolExecutor(THREADS) as pool:
        seconds = list(pool.map(once, range(REQUESTS)))
    middle, late = np.quantile(seconds, [0.5, 0.99]) * 1000
    return f"{REQUESTS} requests from {THREADS} threads: median {middle:.1f} ms, 99% below {late:.1f} ms"


def main() -> None:
    """Serve until interrupted, or measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", help="folder of a saved rating model")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--measure", action="store_true", help="measure response times and exit")
    given = parser.parse_args()
    model = make_model(given.model)
    with make_server(model, 0 if given.measure else given.port) as server:
        print(f"http://127.0.0.1:{server.server_port}/recommend", flush=True)
        if not given.measure:
            server.serve_forever()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(measure(model, server.server_port))
        server.shutdown()


if __name__ == "__main__":
    main()
