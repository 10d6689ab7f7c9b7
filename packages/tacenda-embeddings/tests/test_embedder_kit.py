"""The conformance check passes a sound embedder, and fails each way to be unsound."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from support.plugins import registered
from tacenda.arrays import Array, Float32, take
from tacenda.corpus import Corpus
from tacenda.errors import CorpusError, NotFittedError
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


class Lazy(Toy):
    def transform(self, sentences):
        yield from super().transform(sentences)


@pytest.mark.parametrize("sound", [Toy, Lazy])
def test_a_sound_embedder_passes(sound):
    assert type(check_embedder(sound)) is sound


class Forgetful(Toy):
    def fit(self, corpus):
        super().fit(corpus)


def giving(change):
    """A toy that gives changed arrays."""

    class Unsound(Toy):
        def transform(self, sentences):
            return change(super().transform(sentences))

    return Unsound


def reading(change):
    """A toy that reads changed sentences."""

    class Unsound(Toy):
        def transform(self, sentences):
            return super().transform(change(sentence) for sentence in sentences)

    return Unsound


def fitted(change):
    """A toy that is changed after it was fitted."""

    class Unsound(Toy):
        def fit(self, corpus):
            change(super().fit(corpus))
            return self

    return Unsound


def add_noise(arrays):
    rng = np.random.default_rng()
    return [array + rng.random(array.shape, np.float32) for array in arrays]


class OnceOnly(Toy):
    def fit(self, corpus):
        return super().fit(corpus) if self.table is None else self


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


class Unready(Toy):
    def transform(self, sentences):
        return [] if self.table is None else super().transform(sentences)


class Crashing(Toy):
    def fit(self, corpus):
        np.linalg.inv(np.zeros((2, 2))) if corpus.n_tokens < 5 else None
        return super().fit(corpus)


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


class Sparing(Toy):
    """Gives one array less in a forked process."""

    def transform(self, sentences):
        home = os.getpid() == self.__dict__.setdefault("owner", os.getpid())
        return super().transform(sentences)[: None if home else -1]


class Plain:
    """Is no Estimator, and says nothing of its text."""

    width = Toy.width

    def __init__(self):
        self.toy = Toy()

    def fit(self, corpus):
        self.vocabulary = self.toy.fit(corpus).vocabulary
        return self

    def transform(self, sentences):
        return self.toy.transform(sentences)


UNSOUND = {
    "fewer columns": (giving(lambda arrays: [array[:, :3] for array in arrays]), "shape"),
    "doubles": (giving(lambda arrays: [array.astype(float) for array in arrays]), "float64, not"),
    "Fortran order": (giving(lambda arrays: list(map(np.asfortranarray, arrays))), "C-contiguous"),
    "lists": (giving(lambda arrays: [array.tolist() for array in arrays]), "are a list, no array"),
    "an array for no sentence": (
        giving(lambda arrays: arrays or [np.empty((0, 4), np.float32)]),
        "of no sentences returns arrays",
    ),
    "nothing for no tokens": (giving(lambda arrays: [a for a in arrays if len(a)]), "arrays for"),
    "random": (giving(add_noise), "two threads at once|not deterministic"),
    "strings for letters": (reading(list), "raises no CorpusError"),
    "ascii": (reading(lambda words: [w.encode("ascii").decode() for w in words]), "can't encode"),
    "constant": (fitted(lambda toy: toy.table.fill(1)), "the same vector"),
    "silent": (fitted(lambda toy: toy.fitted_on.clear()), "fit sets fitted_on"),
    "plain": (Plain, "fit sets fitted_on"),
    "none": (giving(lambda arrays: None), "transform returns a NoneType, no arrays"),
    "widthless": (
        fitted(lambda toy: setattr(toy, "width", None)),
        "width is None, not the number of columns",
    ),
    "pooled": (Pooled, "it hangs"),
    "locked": (Locked, "it hangs"),
    "fragile": (Fragile, "died with exit code -9"),
    "estranged": (Estranged, "in a fork"),
    "sparing": (Sparing, r"in a fork: \d+ arrays, not \d+"),
    "forgetful": (Forgetful, "fit does not return the model"),
    "once only": (OnceOnly, "does not forget the first text"),
    "sociable": (Sociable, "depend on other sentences"),
    "greedy": (Greedy, "has no len"),
    "possessive": (Possessive, "that the caller changed is returned again"),
    "meddling": (Meddling, "changes its input"),
    "trusting": (Trusting, "missing|of another rank"),
    "lossy": (Lossy, "a loaded model gives other results"),
    "fixed": (Fixed, "broadcast"),
    "unready": (Unready, "transform before fit raises no NotFittedError"),
    "crashing": (Crashing, "Singular matrix"),
    "wordless": (Wordless, "it has no vocabulary, which commands and pipelines need"),
    "leaking": (Leaking, "transform before fit raises AttributeError: .*, not NotFittedError"),
    "nameless": (Nameless, "Nameless has no name: derive it from tacenda.estimator.Estimator"),
    "unnumbered": (Unnumbered, "a loaded Unnumbered lacks something that fit sets"),
}


@pytest.mark.parametrize(("unsound", "outcome"), UNSOUND.values(), ids=UNSOUND)
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

    with (
        registered("embedders", "stray", Stray, distribution="<kit>"),
        registered("embedders", "stray", Stray, distribution="its-own"),
        pytest.raises(AssertionError, match="its-own installs it"),
    ):
        check_embedder(Stray)


@pytest.mark.parametrize("form", [Corpus.from_sentences, list])
def test_a_text_in_any_form_of_too_few_words_is_refused(form):
    with pytest.raises(CorpusError, match="has 2 words"):
        check_embedder(Toy, form([["a", "b"]]))


def test_only_reserved_types_are_no_words_of_a_corpus():
    tags = [f"<{name}>" for name in range(60) for _ in range(9)]
    assert check_embedder(Toy, Corpus.from_sentences([tags, ["a", "b", "c", "d"]]))
