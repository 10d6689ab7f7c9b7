"""The conformance kit passes a sound embedder, and each way to be unsound fails the test made for it."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tacenda import plugins
from tacenda.artifact import require
from tacenda.corpus import Corpus
from tacenda.errors import NotFittedError
from tacenda.estimator import Estimator
from tacenda.vocabulary import Vocabulary
from tacenda_embeddings.testing import EmbedderTests


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
        shape = (len(model.vocabulary), cls.width)
        model.table = require(arrays, "table", shape=shape, dtype=np.float32, finite=True)
        return model


class TestToy(EmbedderTests):
    def make_model(self):
        return Toy()


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
    ("unsafe", "outcome"),
    [
        (Pooled, "it hangs"),
        (Locked, "it hangs"),
        (Fragile, "died with exit code -9"),
        (Estranged, "Not equal to tolerance"),
    ],
)
def test_an_embedder_that_is_not_safe_to_fork_fails_the_test_made_for_it(unsafe, outcome):
    contents = {"make_model": lambda self: unsafe(), "fork_seconds": 2.0}
    kit = type("Kit", (EmbedderTests,), contents)()
    with pytest.raises(AssertionError, match=outcome):
        kit.test_a_forked_process_may_use_it(unsafe().fit(kit.corpus()))


def test_what_fails_in_a_forked_process_is_told():
    class Failing(Toy):
        def transform(self, sentences):
            if os.getpid() != self.__dict__.setdefault("owner", os.getpid()):
                raise RuntimeError("no handle in this process")
            return super().transform(sentences)

    kit = type("Kit", (EmbedderTests,), {})()
    with pytest.raises(AssertionError, match="RuntimeError: no handle in this process"):
        kit.test_a_forked_process_may_use_it(Failing().fit(kit.corpus()))


@pytest.mark.parametrize(
    ("unsound", "test"),
    [
        (Wide, "one_float32_row_per_token"),
        (Double, "one_float32_row_per_token"),
        (Forgetful, "only_empty_sentences"),
        (OnceOnly, "fitting_again_forgets_the_first_text"),
        (Random, "is_deterministic"),
        (Sociable, "a_sentence_does_not_depend_on_its_company"),
        (Greedy, "takes_any_iterable_of_sequences"),
        (Possessive, "results_belong_to_the_caller"),
        (Meddling, "leaves_its_input_alone"),
        (Constant, "known_words_differ"),
        (Trusting, "a_damaged_artifact_is_refused"),
        (Lossy, "comes_back_from_bytes_bit_for_bit"),
        (Silent, "fit_returns_the_model_and_notes_the_text"),
        (Unhashable, "strange_tokens"),
        (Spelling, "a_sentence_that_is_no_list_of_strings_is_refused"),
        (Fixed, "a_very_long_sentence_among_short_ones"),
    ],
)
def test_an_unsound_embedder_fails_the_test_made_for_it(unsound, test):
    kit = type("Kit", (EmbedderTests,), {"make_model": lambda self: unsound()})()
    act = getattr(kit, f"test_{test}")
    model = unsound().fit(kit.corpus())
    takes_model = "model" in act.__code__.co_varnames[: act.__code__.co_argcount]
    with pytest.raises((AssertionError, TypeError, ValueError)):
        act(model) if takes_model else act()


def test_a_model_that_is_used_unfitted_without_a_word_is_caught(tmp_path):
    kit = type("Kit", (EmbedderTests,), {"make_model": lambda self: Unready()})()
    with pytest.raises(AssertionError, match="transform before fit raises no NotFittedError"):
        kit.test_an_unfitted_model_says_so(tmp_path)


def test_a_model_that_names_another_distribution_than_its_own_is_caught():
    class Stray(Toy):
        name = "stray"

    kit = type("Kit", (EmbedderTests,), {"make_model": lambda self: Stray()})()
    plugins.register("embedders", "stray", Stray, distribution="<kit>")
    try:
        kit.test_names_its_entry_point(Stray())
        plugins.register("embedders", "stray", Stray, distribution="its-own")
        with pytest.raises(AssertionError, match="its-own installs it"):
            kit.test_names_its_entry_point(Stray())
    finally:
        plugins.unregister("embedders", "stray", distribution="<kit>")
        plugins.unregister("embedders", "stray", distribution="its-own")


def test_a_crash_is_not_a_clear_refusal():
    kit = type("Kit", (EmbedderTests,), {"make_model": lambda self: Crashing()})()
    with pytest.raises(np.linalg.LinAlgError):
        kit.test_a_text_of_one_word_is_served_or_refused_clearly([["a"]])


def test_the_sample_text_has_the_words_the_kit_asks_for():
    assert isinstance(EmbedderTests().corpus(), Corpus)
    sentences = EmbedderTests().sentences()
    assert all("unseen" not in sentence for sentence in sentences[:3])
    assert len(sentences[0]) == 9
