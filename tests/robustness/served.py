"""A pipeline, a recommender and a scorer that serve: many threads at once, and memory that does not grow."""

from __future__ import annotations

import itertools
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from children import Cases, Outcome, outcomes, require, require_equal
from specimens import WORDS, fitted, noting

_THREADS = 8
_KINDS = 50  # of requests, over and over
_GROWTH = 0.01  # of the memory, from a fifth of the documents to all of them

Answer = Callable[[Any], list[np.ndarray]]


def _texts(n: int) -> list[str]:
    """Made-up texts, with words that no model knows."""
    rng = np.random.default_rng(0)
    words = [*WORDS, "unseen", "Unheard-of", "1999"]
    return [" ".join(rng.choice(words, rng.integers(1, 30))) for _ in range(n)]


def _pipeline(folder: Path) -> tuple[list[Any], Answer]:
    for name in ("sumembed", "hlbl"):
        fitted(name).save(folder / name)
    nlp = spacy.blank("en")
    nlp.add_pipe("token_embeddings").initialize(artifact=folder / "sumembed")
    nlp.add_pipe("lm_scorer").initialize(artifact=folder / "hlbl")

    def answer(text: str) -> list[np.ndarray]:
        doc = nlp(text)
        return [np.array(doc.tensor), np.array([token._.surprisal for token in doc])]

    return _texts(_KINDS), answer


def _recommender(folder: Path) -> tuple[list[Any], Answer]:
    algorithm = fitted("conditional_pmf")

    def answer(number: int) -> list[np.ndarray]:
        user, item = f"u{number % 30}", f"i{number % 17}"
        listed = algorithm.top_n(3, [user])[user] if number % 30 < 23 else []
        new = algorithm.fold_in({item: 1.0 + number % 5})
        scores = [algorithm.predict(user, item).est, *(score for _, score in listed)]
        return [np.array(scores), np.array([score for _, score in new.top_n(3)])]

    return list(range(_KINDS)), answer


def _scorer(folder: Path) -> tuple[list[Any], Answer]:
    models = [fitted(name) for name in ("kneser_ney", "mixture", "vlhmm")]

    def answer(text: str) -> list[np.ndarray]:
        words = text.split()
        return [np.append(m.surprisal(words), m.perplexity([words]).value) for m in models]

    return _texts(_KINDS), answer


SERVED = {"pipeline": _pipeline, "recommender": _recommender, "scorer": _scorer}


def serving(name: str, n_requests: int, n_documents: int, folder: Path) -> Cases:
    """Answer requests from many threads as alone, and documents one after another in memory that stays what it is."""
    requests, answer = SERVED[name](folder)
    with noting([]):
        wanted = [answer(each) for each in requests]

    def serve() -> None:
        with noting([]), ThreadPoolExecutor(_THREADS) as executor:
            numbers = [number % _KINDS for number in range(n_requests)]
            found = executor.map(lambda number: answer(requests[number]), numbers)
            for number, one in zip(numbers, found, strict=True):
                require_equal(one, wanted[number], "another answer in a thread")

    def go_on() -> None:
        with noting([]):
            sizes = list(_memory(answer, requests, n_documents))
        grown = sizes[-1] / sizes[0] - 1
        require(grown <= _GROWTH, f"a memory that grows by {grown:.1%}: {sizes}")

    for count, act in ((n_requests, serve), (n_documents, go_on)):
        [outcome] = outcomes([act]) if count else [Outcome("", "answered")]
        yield from itertools.repeat(
            (f"{count} of {name}", outcome), 1 if outcome.complaint else count
        )


def _memory(answer: Answer, requests: list[Any], n: int) -> Iterator[int]:
    """Answer n requests; yield the bytes in memory after each fifth of them."""
    for number in range(1, n + 1):
        answer(requests[number % len(requests)])
        if number % (n // 5) == 0:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            yield pages * resource.getpagesize()
