"""Processes killed at random moments: the old or the new is left, whole, and a fit goes on as if nothing had been."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from children import SECONDS, Cases, InvalidError, Outcome, kill, outcome_of, require, require_equal
from specimens import corpus, exercise, load, specimens, trainset

from tacenda import Corpus, artifact, datasets, plugins, store

#: Kills a number of times, with a seed, in a folder.
Scenario = Callable[[int, int, Path], Cases]


def scenarios(short: bool) -> dict[str, Scenario]:
    """What is killed, by name."""
    fits = [name for name, each in specimens().items() if each.keeps_checkpoints]
    return {
        "saving a model": saving,
        "building a corpus": building,
        "fetching a dataset": fetching,
        "writing a file": writing,
        **{
            f"fitting {name}": functools.partial(fitting, name)
            for name in (["hmm"] if short else fits)
        },
    }


def shares(kills: int, short: bool) -> list[int]:
    """How many kills each scenario gets: half of them what writes, and the fits the rest."""
    names = list(scenarios(short))
    n_fits = sum(name.startswith("fitting") for name in names)
    parts = [
        4 if name.startswith("fitting") else 4 * n_fits / (len(names) - n_fits) for name in names
    ]
    ends = np.rint(np.cumsum(parts) / sum(parts) * kills).astype(int)
    return np.diff(ends, prepend=0).tolist()


def _killing(
    act: Callable[[], object], check: Callable[[], object], within: float, n: int, seed: int
) -> Cases:
    """Kill what goes on forever, within some seconds, and check what is left, again and again."""
    rng = np.random.default_rng([seed, n])

    def forever() -> None:
        while True:
            act()

    for _ in range(n):
        after = rng.uniform(0, within)

        def once(after: float = after) -> None:
            require(kill(forever, after), "an end of what goes on forever")
            check()

        yield f"killed after {after:.4f} s", outcome_of(once)


def saving(n: int, seed: int, folder: Path) -> Cases:
    """Two models that take turns in one folder."""
    from tacenda_lm import HMM, KneserNey, Mixture
    from tacenda_surprise import PMF

    parts = [{"kn": KneserNey(order=k), "hmm": HMM(n_states=k, epochs=1)} for k in (2, 3)]
    pairs: dict[str, list[Any]] = {
        "kneser_ney": [KneserNey(order=k).fit(corpus()) for k in (2, 3)],
        "mixture": [Mixture(each).fit(corpus()) for each in parts],
        "pmf": [PMF(n_factors=k, n_epochs=1, random_state=0).fit(trainset()) for k in (2, 3)],
    }
    for (name, pair), share in zip(pairs.items(), _thirds(n), strict=True):
        place = folder / name
        pair[0].save(place)
        answers = [exercise(each) for each in pair]

        def act(pair: list[Any] = pair, place: Path = place) -> None:
            for each in reversed(pair):
                each.save(place)

        def check(
            name: str = name, pair: list[Any] = pair, place: Path = place, answers: Any = answers
        ) -> None:
            found = exercise(load(place, name))
            require(
                any(_same(found, each) for each in answers), "neither the old model nor the new"
            )
            pair[0].save(place)
            head = json.loads((place / "model.json").read_text(encoding="utf-8"))
            parts = len(head["files"]) + len(head["nested"])
            require(len(list(place.iterdir())) == parts + 1, "a folder with litter in it")

        yield from _killing(act, check, 0.15, share, seed)


def building(n: int, seed: int, folder: Path) -> Cases:
    """Two corpora that take turns in one cache."""
    texts = [folder / "one.txt", folder / "two.txt"]
    for text, word in zip(texts, ("one", "two"), strict=True):
        text.write_text(f"a text of the {word} kind\n" * 20_000, encoding="utf-8")
    cache = folder / "cache"
    corpora = [Corpus.from_text(text) for text in texts]
    Corpus.from_text(texts[0], cache=cache)

    def act() -> None:
        for text in reversed(texts):
            Corpus.from_text(text, cache=cache)

    def check() -> None:
        found = Corpus.open(cache)
        whole = any(
            found.vocabulary == each.vocabulary and np.array_equal(found.ids, each.ids)
            for each in corpora
        )
        require(whole, "neither the old corpus nor the new")
        act()  # at least one of the two is built anew, and sweeps
        require(len(list(cache.iterdir())) == 2, "a cache with litter in it")

    yield from _killing(act, check, 0.3, n, seed)


def fetching(n: int, seed: int, folder: Path) -> Cases:
    """A dataset that is fetched again and again from a slow server."""
    files = {f"toy/{name}.txt": os.urandom(200_000) for name in ("train", "test")}
    with served_slowly(files) as spec:

        def act() -> None:
            datasets.fetch(spec.name, folder, force=True)

        def check() -> None:
            found = datasets.fetch(spec.name, folder).dataset
            for name, data in files.items():
                require(found[Path(name).stem].read_bytes() == data, "other data")

        plugins.register("datasets", spec.name, spec)
        try:
            yield from _killing(act, check, 0.5, n, seed)
        finally:
            plugins.unregister("datasets", spec.name)


@contextlib.contextmanager
def served_slowly(files: dict[str, bytes]) -> Iterator[datasets.DatasetSpec]:
    """A dataset of these files, in an archive on a slow server; each has the name of its file as its role."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as packed:
        for name, data in files.items():
            packed.writestr(name, data)
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        os.environ.pop(variable, None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Slow, stream.getvalue()))
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/toy.zip"
    try:
        yield datasets.DatasetSpec(
            name="toy",
            title="A toy",
            license="CC0",
            license_text="Do as you like.",
            homepage="https://example.invalid",
            files={Path(name).stem: (name,) for name in files},
            downloads=(datasets.Download(urls=(address,), filename="toy.zip", unpack=True),),
        )
    finally:
        server.shutdown()
        server.server_close()


class _Slow(BaseHTTPRequestHandler):
    def __init__(self, body: bytes, *arguments: Any) -> None:
        self.body = body
        super().__init__(*arguments)

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Send the body in pieces, until the other end has had enough."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        try:
            for start in range(0, len(self.body), 1 << 16):
                self.wfile.write(self.body[start : start + (1 << 16)])
                time.sleep(0.01)
        except OSError:
            return


def writing(n: int, seed: int, folder: Path) -> Cases:
    """Files that are written over and over, each with two contents in turn."""
    from tacenda_embeddings import SumEmbed
    from tacenda_lm import BrownClusters, KneserNey

    models = [KneserNey(order=k).fit(corpus()) for k in (2, 4)]
    vectors = [SumEmbed(width=w).fit(corpus()) for w in (4, 40)]
    clusters = [BrownClusters((f"word{i}", f"{i:016b}", i) for i in range(k)) for k in (500, 5000)]
    writers: dict[str, list[Callable[[Path], object]]] = {
        "model.arpa.gz": [each.to_arpa for each in models],
        "vectors.txt": [each.save_word2vec for each in vectors],
        "clusters.tsv": [each.save for each in clusters],
    }
    for (name, pair), share in zip(writers.items(), _thirds(n), strict=True):
        place = folder / name
        contents = []
        for write in pair:
            write(place)
            contents.append(store.sha256_of(place))

        def act(pair: Any = pair, place: Path = place) -> None:
            for write in pair:
                write(place)

        def check(place: Path = place, contents: list[str] = contents) -> None:
            require(
                store.sha256_of(place) in contents, "a file that is neither the old nor the new"
            )

        yield from _killing(act, check, 0.1, share, seed)


def fitting(name: str, n: int, seed: int, folder: Path) -> Cases:
    """A fit with checkpoints, killed up to three times and then left to end: as if nothing had happened."""
    specimen = specimens()[name]
    rng = np.random.default_rng([seed, *name.encode()])

    def fit(place: Path) -> None:
        specimen.fit(checkpoints=place / "checkpoints").save(place / "model")

    fit(folder / "warm")
    begun = time.monotonic()
    # in a child, with its number of threads
    kill(functools.partial(fit, folder / "alone"), SECONDS)
    took = time.monotonic() - begun
    wanted = arrays_of(artifact.read(folder / "alone" / "model"))
    n_killed = n_rounds = 0
    while n_killed < n and n_rounds < 4 * n + 8:
        place, n_rounds = folder / f"round-{n_rounds}", n_rounds + 1
        notes: list[str] = []
        outcome = Outcome("", "answered")
        try:
            for after in rng.uniform(0, took, min(int(rng.integers(1, 4)), n - n_killed)):
                if not kill(functools.partial(fit, place), after):
                    break
                notes.append(f"killed after {after:.3f} s")
            require(not kill(functools.partial(fit, place), SECONDS), "a fit that hangs")
            found = arrays_of(artifact.read(place / "model"))
            require_equal(found, wanted, "another model than a fit without interruption")
        except InvalidError as error:
            outcome = Outcome(f"it gave {error}", "wrong")
        n_killed += len(notes)
        yield from ((note, Outcome("", "answered")) for note in notes[:-1])
        if notes or outcome.complaint:
            yield ", ".join(notes) or "left alone", outcome


def arrays_of(found: artifact.Artifact) -> list[np.ndarray]:
    """The arrays of a saved model, and of the models in it, by their names."""
    own = [array for _, array in sorted(found.arrays.items())]
    return [*own, *(each for _, part in sorted(found.nested.items()) for each in arrays_of(part))]


def _same(found: list[np.ndarray], wanted: list[np.ndarray]) -> bool:
    try:
        require_equal(found, wanted, "")
    except InvalidError:
        return False
    return True


def _thirds(n: int) -> list[int]:
    return [n // 3 + (i < n % 3) for i in range(3)]
