"""Small fits that tell whether code which has changed still computes the same.

    python -m benchmarks.witnesses [COMMIT ...]

A figure is stale when the code it measures has changed (`benchmarks.parts`). Most changes change no figure: a function
gets another name, a device gets a path of its own. So every measured model has a witness here, a fit of about a
second on generated text or ratings and some means of what it predicts. This writes the means of the present code, and
of the commits named, to `witnesses.json`. Where those of the code that was measured and of the present code are equal
to a ten-thousandth, on one machine, the figures stand as they are. Nothing that was timed is vouched for.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import freshness, parts, reporting
from tacenda import Corpus
from tacenda.errors import TacendaError

THREADS = ("OMP", "MKL", "OPENBLAS", "NUMBA")
STRIDES = 8


def words(n_sentences: int, seed: int) -> list[list[str]]:
    """Sentences of a made-up language: 300 words with endings, each of which likes a dozen others to follow."""
    rng = np.random.default_rng(seed)
    followers = np.random.default_rng(0).integers(300, size=(300, 12))
    sentences = []
    for length in rng.integers(3, 20, size=n_sentences):
        word = int(rng.integers(300))
        sentence = []
        for _ in range(length):
            sentence.append(f"{'aeiou'[word % 5]}{word // 5:x}{('s', 'ed', 'ing')[word % 3]}")
            word = int(rng.integers(300) if rng.random() < 0.2 else rng.choice(followers[word]))
        sentences.append(sentence)
    return sentences


def _corpora() -> tuple[Corpus, Corpus, Corpus]:
    train = Corpus.from_sentences(words(1500, 1), max_vocabulary=250)
    return train, *(
        Corpus.from_sentences(words(100, seed), vocabulary=train.vocabulary) for seed in (2, 3)
    )


def _of_language_model(model: Any, fitted: bool = False) -> list[Any]:
    train, valid, test = _corpora()
    lm = model if fitted else model.fit(train, valid)
    return [
        float(lm.perplexity(test)),
        *(lm.surprisal(sentence) for sentence in words(20, 4)),
        float(lm.perplexity(test, context="stream")),
    ]


def n_grams() -> Iterator[Any]:
    from tacenda_lm import KneserNey

    train, _, _ = _corpora()
    for order in (2, 3, 5):
        yield _of_language_model(KneserNey(order=order).fit(train), fitted=True)


def hlbl() -> Iterator[Any]:
    from tacenda_lm import HLBL

    yield _of_language_model(HLBL(width=24, epochs=2))


def lbl() -> Iterator[Any]:
    from tacenda_lm import LBL

    yield _of_language_model(LBL(width=24, epochs=2))


def vlhmm() -> Iterator[Any]:
    from tacenda_lm import VLHMM

    yield _of_language_model(VLHMM(n_classes=8, states_per_class=8, width=16, epochs=2))


def hmm() -> Iterator[Any]:
    from tacenda_lm import HMM

    yield _of_language_model(HMM(n_states=8, epochs=3))


def machines() -> Iterator[Any]:
    from tacenda_lm import FRBM, TemporalFRBM

    yield _of_language_model(FRBM(features=8, hidden=12, epochs=2))
    yield _of_language_model(TemporalFRBM(features=8, hidden=12, frbm_epochs=1, epochs=1))


def state_space() -> Iterator[Any]:
    from tacenda_lm import StateSpaceLM

    yield _of_language_model(StateSpaceLM(epochs=2))


def recurrent() -> Iterator[Any]:
    from tacenda_lm import RecurrentLM

    yield _of_language_model(RecurrentLM(width=12, epochs=2))


def caches() -> Iterator[Any]:
    from tacenda_lm import HLBL, Mixture, NeuralCache, UnigramCache

    train, valid, _ = _corpora()
    hlbl = HLBL(width=16, epochs=1).fit(train, valid)
    parts = [hlbl, UnigramCache().fit(train), NeuralCache.over(hlbl)]
    mixture = Mixture(parts).fit_weights(valid, context="stream")
    yield [*mixture.weights.values(), float(mixture.perplexity(valid, context="stream"))]


def mixture() -> Iterator[Any]:
    from tacenda_lm import HLBL, KneserNey, Mixture

    train, valid, _ = _corpora()
    models = [HLBL(width=16, epochs=1).fit(train, valid), KneserNey(order=3).fit(train)]
    for context in ("sentence", "stream"):
        mixed = Mixture(models).fit_weights(valid, context=context)
        yield [*mixed.weights.values(), *_of_language_model(mixed, fitted=True)]


def surprisal() -> Iterator[Any]:
    from tacenda_lm import KneserNey, surprisal_table

    train, _, _ = _corpora()
    lm = KneserNey(order=3).fit(train)
    running = [word for sentence in words(30, 5) for word in sentence]
    text = " ".join(f"{word}, zebra" if i % 7 == 0 else word for i, word in enumerate(running))
    for arguments in ({"unknown": "spelling"}, {"unknown": "even", "unseen_types": 10_000}):
        table = surprisal_table(lm, text, previous=1, **arguments)
        for column in ("surprisal", "surprisal_with_punctuation", "log_frequency"):
            yield np.ma.filled(table[column], -1)


def lds() -> Iterator[Any]:
    from tacenda_embeddings import LDS

    train, _, _ = _corpora()
    model = LDS(n_states=12).fit(train)
    for sentence in words(20, 4):
        yield np.abs(model.transform([sentence])[0])


def varembed() -> Iterator[Any]:
    from tacenda_embeddings import SumEmbed, VarEmbed

    train, _, _ = _corpora()
    for kind in (SumEmbed, VarEmbed):
        model = kind(width=16, epochs=2).fit(train)
        yield model.transform([["a1s", "e2ed", "i7ing", "unseened"]])[0]


def spacy() -> Iterator[Any]:
    import spacy as host

    from tacenda_embeddings import LDS

    train, _, _ = _corpora()
    nlp = host.blank("en")
    nlp.add_pipe("lds_embeddings").initialize(artifact=LDS(n_states=12).fit(train))
    for doc in nlp.pipe(" ".join(sentence) for sentence in words(20, 4)):
        yield np.abs(doc.tensor)


def ratings() -> Iterator[Any]:
    from surprise import Dataset, Reader

    import tacenda_surprise as models

    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(120, 3)), rng.normal(size=(90, 3))
    users, items = rng.integers(120, size=3000), rng.integers(90, size=3000)
    values = np.clip(np.rint(3.4 + 0.6 * (u[users] * v[items]).sum(1)), 1, 5)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ratings"
        lines = zip(users.tolist(), items.tolist(), values.tolist(), strict=True)
        file.write_text("".join(f"{user} {item} {value}\n" for user, item, value in lines))
        reader = Reader(line_format="user item rating", rating_scale=(1, 5))
        train = Dataset.load_from_file(file, reader).build_full_trainset()
    yield _of_recommender(models.BiasOnly(), train)
    for name in ("PMF", "ConditionalPMF", "BayesianPMF", "ConditionalBayesianPMF"):
        yield _of_recommender(getattr(models, name)(random_state=0), train)
    for name in ("RBM", "ConditionalRBM"):
        yield _of_recommender(getattr(models, name)(n_epochs=5, random_state=0), train)


def _of_recommender(model: Any, train: Any) -> list[float]:
    model.fit(train)
    return [model.predict(str(user), str(user % 90)).est for user in range(0, 130)]


WITNESSES: dict[str, Callable[[], Iterator[Any]]] = {
    each.__name__: each
    for each in (
        n_grams, hlbl, lbl, vlhmm, hmm, machines, state_space, recurrent, caches, mixture,
        surprisal, lds, varembed, spacy, ratings,
    )
}  # fmt: skip


def means() -> dict[str, list[float]]:
    """For each witness that runs with the code imported, means and mean squares of every eighth number it gives."""
    said = {}
    for name, witness in WITNESSES.items():
        try:
            given = [each if isinstance(each, list) else [each] for each in witness()]
        except (AttributeError, ImportError, TypeError, TacendaError) as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        numbers = np.concatenate([np.ravel(each).astype(float) for part in given for each in part])
        every = [numbers[start::STRIDES] for start in range(min(STRIDES, len(numbers)))]
        said[name] = [float(f"{np.mean(x**k):.7g}") for x in every for k in (1, 2)]
    return said


def said_of(checkout: Path) -> dict[str, Any]:
    """What the witnesses say of a checkout: its code and their means, on this machine, with one thread."""
    sources = map(str, sorted(checkout.glob("packages/*/src")))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*sources, str(parts.ROOT)]),
        **{f"{library}_NUM_THREADS": "1" for library in THREADS},
    }
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.witnesses", "--here"]
    said = subprocess.run(
        command, cwd=parts.ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    measured = dict.fromkeys(each for part in parts.PARTS for each in part.measures)
    return {
        "machine": reporting.machine(),
        "code": {
            each: freshness.code(each, checkout)
            for each in measured
            if freshness.exists(each, checkout)
        },
        "said": json.loads(said.stdout.splitlines()[-1]),
    }


def said_of_commit(commit: str) -> dict[str, Any]:
    """The same of a commit, in a checkout of its own."""
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "checkout"
        git = ("git", "-C", str(parts.ROOT), "worktree")
        subprocess.run((*git, "add", "--quiet", "--detach", str(checkout), commit), check=True)
        try:
            return said_of(checkout)
        finally:
            subprocess.run((*git, "remove", "--force", str(checkout)), check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commits", nargs="*", metavar="COMMIT", help="earlier code to hear too")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(means()))
        return
    new = [*map(said_of_commit, options.commits), said_of(parts.ROOT)]
    known = [
        each for each in freshness.heard() if each["code"] not in [other["code"] for other in new]
    ]
    runs = [
        run for part in parts.PARTS for result in part.results for run in freshness.runs(result)
    ]
    wanted = [each for each in known if any(freshness.covers(each, run) for run in runs)]
    reporting.write(freshness.WITNESSED, [*wanted, *new])
    for name in WITNESSES:
        alike = [
            freshness.alike(each["said"].get(name), new[-1]["said"].get(name)) for each in new[:-1]
        ]
        print(f"{name}: {', '.join('the same' if same else 'not the same' for same in alike)}")


if __name__ == "__main__":
    main()
