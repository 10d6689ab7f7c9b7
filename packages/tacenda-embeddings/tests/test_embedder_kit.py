"""The conformance check passes a sound embedder, and fails each way to be unsound."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tacenda import plugins
from tacenda.arrays import Array, Float32, take
from tacenda.errors import NotFittedError
from tacenda.estimator import Estimator
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings.testing import check_embedder


class Toy(Estimator):
    """The vector of a token: its word's random row plus half of the row of the word before."""

    kind, name, distribution = "embedders", "toy", "<kit>"
    width = 4

    def __init__(self):
        self.table = None
        self.fitted_on = {}
        self.figures = []

    def fit(self, corpus):
        self.vocabulary = corpus.vocabulary
        rng = np.random.default_rng(0)
        self.table = rng.standard_normal((len(corpus.vocabulary), self.width), np.float32)
        self.fitted_on = {"tokens": corpus.n_tokens}
        return self

    def transform(self, sentences):
        if self.table is None:
            raise NotFittedError("the toy is not fitted: call fit")
        arrays = []
        for sentence in sentences:
            array = self.table[self.vocabulary.encode(sentence)]
            array[1:] += array[:-1] / 2
            arrays.append(array)
        return arrays

    def config_dict(self):
        return {"vocabulary": self.vocabulary.config_dict() if self.table is not None else {}}

    def arrays(self):
        if self.table is None:
            raise NotFittedError("the toy is not fitted: call fit")
        return {"table": self.table, **self.vocabulary.arrays()}

    @classmethod
    def from_arrays(cls, config, arrays):
        model = cls()
        model.vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays)
        sizes = {"types": len(model.vocabulary), "width": cls.width}
        model.table = take(arrays, "table", Float32[Array, "types width"], sizes)
        return model


def test_a_sound_embedder_passes():
    assert type(check_embedder(Toy)) is Toy


class Wide(Toy):
    width = 5

    def transform(self, sentences):
        return [array[:, :4] for array in super().transform(sentences)]


class Double(Toy):
    def transform(self, sentences):
        return [array.astype(np.float64) for array in super().transform(sentences)]


class Forgetful(Toy):
    """Gives no array for an empty sentence."""

    def transform(self, sentences):
        return [array for array in super().transform(sentences) if len(array)]


class OnceOnly(Toy):
    def fit(self, corpus):
        return super().fit(corpus) if self.table is None else self


class Random(Toy):
    def transform(self, sentences):
        rng = np.random.default_rng()
        return [a + rng.random(a.shape, np.float32) for a in super().transform(sentences)]


class Sociable(Toy):
    """Carries the last token of a sentence into the next."""

    def transform(self, sentences):
        arrays, last = super().transform(sentences), 0
        for array in arrays:
            array += last
            last = array[-1:].sum(axis=0)
        return arrays


class Greedy(Toy):
    """Needs to know how many sentences there are."""

    def transform(self, sentences):
        len(sentences)
        return super().transform(sentences)


class Possessive(Toy):
    """Hands out its cache."""

    def transform(self, sentences):
        cache = self.__dict__.setdefault("cache", {})
        keys = [tuple(sentence) for sentence in sentences]
        return [cache.setdefault(key, super(Possessive, self).transform([key])[0]) for key in keys]


class Meddling(Toy):
    def transform(self, sentences):
        arrays = super().transform(sentences)
        for sentence in sentences:
            sentence.reverse()
        return arrays


class Constant(Toy):
    def fit(self, corpus):
        super().fit(corpus).table[:] = 1
        return self


class Trusting(Toy):
    @classmethod
    def from_arrays(cls, config, arrays):
        model = cls()
        model.vocabulary = Vocabulary.from_arrays(config["vocabulary"], arrays)
        model.table = arrays["table"]
        return model


class Lossy(Toy):
    def arrays(self):
        arrays = super().arrays()
        return {**arrays, "table": arrays["table"].astype(np.float16).astype(np.float32)}


class Silent(Toy):
    def fit(self, corpus):
        super().fit(corpus).fitted_on = {}
        return self


class Unready(Toy):
    def transform(self, sentences):
        return [] if self.table is None else super().transform(sentences)


class Crashing(Toy):
    def fit(self, corpus):
        np.linalg.inv(np.zeros((2, 2))) if corpus.n_tokens < 5 else None
        return super().fit(corpus)


class Spelling(Toy):
    """Takes a string for its letters."""

    def transform(self, sentences):
        return super().transform(list(sentence) for sentence in sentences)


class Unhashable(Toy):
    def transform(self, sentences):
        return super().transform([[t.encode("ascii").decode() for t in s] for s in sentences])


class Fixed(Toy):
    """Pads to a length, and takes no longer sentence."""

    def transform(self, sentences):
        for sentence in sentences:
            np.empty(10_000)[: len(sentence)] = np.arange(len(sentence))
        return super().transform(sentences)


class Wordless(Toy):
    """Has no vocabulary that others can look into."""

    def fit(self, corpus):
        super().fit(corpus)
        self.words = self.__dict__.pop("vocabulary")
        return self

    def transform(self, sentences):
        sound = Toy()
        sound.table, sound.vocabulary = self.table, self.words if self.fitted_on else None
        return sound.transform(sentences)


class Widthless(Toy):
    def fit(self, corpus):
        super().fit(corpus).width = None
        return self


class Leaking(Toy):
    """Raises what Python raises where there is no table yet."""

    def transform(self, sentences):
        _ = self.table.shape
        return super().transform(sentences)


class Nameless(Toy):
    name = None


class Unnumbered(Toy):
    """Lacks something when it is loaded."""

    def transform(self, sentences):
        if "calls" not in self.__dict__ and self.table is not None:
            raise NotFittedError("the toy has no calls: call fit")
        return super().transform(sentences)

    def fit(self, corpus):
        self.calls = 0
        return super().fit(corpus)


class Pooled(Toy):
    """Works in a pool of threads, which a forked process has not, and waits for it there for ever."""

    def transform(self, sentences):
        pool = self.__dict__.setdefault("pool", ThreadPoolExecutor(1))
        return pool.submit(super().transform, list(sentences)).result()


class Locked(Toy):
    """Has a lock that a thread of its own holds, as a refresher of a cache would; the owner knows."""

    def transform(self, sentences):
        if "lock" not in self.__dict__:
            self.lock, self.owner = threading.Lock(), os.getpid()
            threading.Thread(target=self.lock.acquire).start()
        if os.getpid() != self.owner:
            self.lock.acquire()
        return super().transform(sentences)


class Fragile(Toy):
    """Dies in a forked process, as a runtime that refuses to be forked does."""

    def transform(self, sentences):
        if os.getpid() != self.__dict__.setdefault("owner", os.getpid()):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().transform(sentences)


class Estranged(Toy):
    """Gives other vectors in a forked process."""

    def transform(self, sentences):
        home = os.getpid() == self.__dict__.setdefault("owner", os.getpid())
        return [array if home else array + 1 for array in super().transform(sentences)]


@pytest.mark.parametrize(
    ("unsound", "outcome"),
    [
        (Pooled, "it hangs"),
        (Locked, "it hangs"),
        (Fragile, "died with exit code -9"),
        (Estranged, "in a fork"),
        (Wide, "shape"),
        (Double, "float64, not float32"),
        (Forgetful, "arrays for"),
        (OnceOnly, "does not forget the first text"),
        (Random, "Arrays are not equal|not deterministic"),
        (Sociable, "depends on its company"),
        (Greedy, "has no len"),
        (Possessive, "Arrays are not equal"),
        (Meddling, "changes its input"),
        (Constant, "the same vector"),
        (Trusting, "missing|of another rank"),
        (Lossy, "Arrays are not equal"),
        (Silent, "fit sets fitted_on"),
        (Unhashable, "codec can't encode"),
        (Spelling, "raises no CorpusError"),
        (Fixed, "broadcast"),
        (Unready, "transform before fit raises no NotFittedError"),
        (Crashing, "Singular matrix"),
        (Wordless, "it has no vocabulary, which commands and pipelines need"),
        (Widthless, "width is None, not the number of columns"),
        (Leaking, "transform before fit raises AttributeError: .*, not NotFittedError"),
        (Nameless, "Nameless has no name: derive it from tacenda.estimator.Estimator"),
        (Unnumbered, "a loaded Unnumbered lacks something that fit sets"),
    ],
)
def test_an_unsound_embedder_fails(unsound, outcome):
    faults = (AssertionError, TypeError, ValueError, KeyError, np.linalg.LinAlgError)
    with pytest.raises(faults, match=outcome):
        check_embedder(unsound, fork_seconds=2.0)


def test_what_fails_in_a_forked_process_is_told():
    class Failing(Toy):
        def transform(self, sentences):
            if os.getpid() != self.__dict__.setdefault("owner", os.getpid()):
                raise RuntimeError("no handle in this process")
            return super().transform(sentences)

    with pytest.raises(AssertionError, match="RuntimeError: no handle in this process"):
        check_embedder(Failing)


def test_a_model_that_names_another_distribution_than_its_own_is_caught():
    class Stray(Toy):
        name = "stray"

    plugins.register("embedders", "stray", Stray, distribution="<kit>")
    try:
        plugins.register("embedders", "stray", Stray, distribution="its-own")
        with pytest.raises(AssertionError, match="its-own installs it"):
            check_embedder(Stray)
    finally:
        plugins.unregister("embedders", "stray", distribution="<kit>")
        plugins.unregister("embedders", "stray", distribution="its-own")
