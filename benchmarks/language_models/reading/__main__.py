"""How much of the times in which people read words a model's surprisal explains, beyond length and frequency.

    python -m benchmarks.language_models.reading [--only GPT-3 "KneserNey(5), novels"]

Natural Stories, 100 English novels and English Wikipedia, from TACENDA_DATA or the cache. Fitted models are kept and a
fit that was interrupted is resumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.language_models import contexts
from benchmarks.language_models.reading import texts
from benchmarks.language_models.reading.stories import Matrix, Stories, before, gain
from benchmarks.reporting import Row, Table, main
from tacenda import Corpus
from tacenda_lm import HLBL, VLHMM, KneserNey, LanguageModel, Mixture

ORDERS = {"novels": (2, 3, 5), "wikipedia": (2, 3, 5)}
#: Chosen before any reading time was looked at, from what is known of texts of this size: two passes are too few to
#: overfit, so little is dropped out.
HLBL_SETTINGS: dict[str, Any] = {"epochs": 2, "dropout": 0.1}
VLHMM_SETTINGS: dict[str, Any] = {"n_classes": 256, "states_per_class": 64, "epochs": 2}
MIXTURES = {
    "KneserNey(5), novels + Wikipedia": ("KneserNey(5), novels", "KneserNey(5), wikipedia"),
    "HLBL + KneserNey(5), novels + Wikipedia": (
        "HLBL, both",
        "KneserNey(5), novels",
        "KneserNey(5), wikipedia",
    ),
}
PROTOCOL = {
    "times": "Natural Stories: log of the geometric mean of the readers' self-paced reading times of a word",
    "base": "length in characters, log of the count of the word in Google's books, their product, place in the story; "
    "length, log count and product of the word before",
    "gain": "log-likelihood (natural) of a linear model with the surprisal of the word and of the word before, less "
    "that of the base: over all words; se: standard error of the sum of the words' differences",
    "left out": "the same, each story predicted by models fitted to the other nine; better: in how many of the ten "
    "it is above zero",
    "on GPT-3": "the gain over a base with GPT-3's surprisal of both words",
    "bare": "the gain where punctuation attached to a word is left out of its surprisal",
    "beyond punctuation": "the gain over a base that knows too whether punctuation is attached before and behind each "
    "of the two words",
    "words": "those with a word before in their story, both in the vocabulary of the 40,000 most frequent words of "
    "Wikipedia, and both in Google's counts with the words before them; the same for every row",
    "bits": "surprisal per word, punctuation included, of these words",
    "text": "a paragraph a line, and a story a line; the weights of mixtures were fitted to two authors' novels and "
    "Wikipedia's dev part, which are held out",
}


class Study:
    """The regression: one word set and one base for all models."""

    def __init__(self, stories: Stories, known: npt.NDArray[np.bool_]) -> None:
        story, length, frequency = stories.story, stories.lengths, stories.google(1, "word")
        each = [length, frequency, length * frequency]
        columns = [*each, stories.zone.astype(float), *(before(column, story) for column in each)]
        self.base = np.stack(columns, axis=1)
        self.gpt3 = self._with_before(stories, stories.gpt3("whole"))
        needed = [self.base, self.gpt3]
        for part in ("word", "whole"):
            needed += [self._with_before(stories, stories.google(n, part)) for n in (2, 3)]
        self.words = np.isfinite(np.hstack(needed)).all(axis=1)
        self.words &= known & (before(known.astype(float), story) == 1)
        self.stories = stories

    def row(self, bits: Matrix, bare: Matrix) -> Row:
        """The gains of a model's surprisal, with and without attached punctuation."""
        chosen, stories = self.words, self.stories
        times, story = stories.log_times[chosen], stories.story[chosen]
        own = self._with_before(stories, bits)[chosen]
        base, gpt3 = self.base[chosen], self.gpt3[chosen]
        without = self._with_before(stories, bare)[chosen]
        marks = np.hstack([self._with_before(stories, each)[chosen] for each in stories.marks])
        return {
            **gain(times, base, own, story),
            "on GPT-3": gain(times, np.hstack([base, gpt3]), own, story)["gain"],
            "bare": gain(times, base, without, story)["gain"],
            "beyond punctuation": gain(times, np.hstack([base, marks]), own, story)["gain"],
            "bits": float(bits[chosen].mean()),
        }

    @staticmethod
    def _with_before(stories: Stories, values: Matrix) -> Matrix:
        return np.stack([values, before(values, stories.story)], axis=1)


class Models:
    """The fitted models by their names, made when they are asked for."""

    def __init__(self) -> None:
        self._texts: dict[str, Corpus] = {}
        self._last: tuple[str, Any] = ("", None)  # several rows in a row are of one model

    def text(self, name: str) -> Corpus:
        """One of the three training texts."""
        if name not in self._texts:
            vocabulary = None if name == "wikipedia" else self.text("wikipedia").vocabulary
            self._texts[name] = texts.training_text(name, vocabulary)
        return self._texts[name]

    @cached_property
    def held_out(self) -> Corpus:
        """For the weights of mixtures."""
        return texts.held_out(self.text("wikipedia").vocabulary)

    def fitted(self, name: str) -> LanguageModel:
        """A model alone, such as ``"KneserNey(5), novels"``."""
        if name == self._last[0]:
            return self._last[1]  # type: ignore[no-any-return]
        kind, _, text = name.partition(", ")
        model: Any
        if kind == "HLBL":
            model = HLBL(**HLBL_SETTINGS)
        elif kind == "VLHMM":
            model = VLHMM(**VLHMM_SETTINGS)
        else:
            model = KneserNey(order=int(kind[-2]))
        held_out = self.held_out if model.keeps_checkpoints else None
        # that of Wikipedia is the one of `scale`, if it is kept
        found, _ = contexts.fitted(model, text, lambda: self.text(text), held_out)
        self._last = (name, found)
        return found  # type: ignore[no-any-return]

    def mixed(self, names: tuple[str, ...]) -> Mixture:
        """Models together, with weights fitted to held-out text."""
        mixture = Mixture({each: self.fitted(each) for each in names})
        return mixture.fit_weights(self.held_out)


def scored(name: str, stories: Stories, study: Study, models: Models) -> Row:
    """Return the row of a model, or of a mixture with its weights."""
    model = models.mixed(MIXTURES[name]) if name in MIXTURES else models.fitted(name)
    table = stories.scored(model)
    columns = ("surprisal_with_punctuation", "surprisal")
    weights = {"weights": model.weights} if isinstance(model, Mixture) else {}
    return {**study.row(*(np.asarray(table[each], float) for each in columns)), **weights}


def rows(options: Any) -> Iterator[Row]:
    """Yield what was published with the stories, and our models."""
    stories, models = Stories(), Models()
    study = Study(stories, stories.known(models.text("wikipedia").vocabulary))
    if options.wants("GPT-3"):
        row = study.row(stories.gpt3("whole"), stories.gpt3("word"))
        yield {"what": "GPT-3", **row, "on GPT-3": None}
    for order, name in ((2, "Google's bigrams"), (3, "Google's trigrams")):
        if options.wants(name):
            row = study.row(*(stories.google(order, part) for part in ("whole", "word")))
            yield {"what": name, **row}
    for text in ("novels", "wikipedia"):
        name = f"unigrams, {text}"
        if options.wants(name):
            yield {"what": name, **scored(f"KneserNey(1), {text}", stories, study, models)}
    names = [f"KneserNey({n}), {text}" for text, orders in ORDERS.items() for n in orders]
    ngrams, both = MIXTURES
    for name in options.chosen([*names, ngrams, "HLBL, both", both, "VLHMM, novels"]):
        yield {"what": name, **scored(name, stories, study, models)}


if __name__ == "__main__":
    main(__doc__, Table("lm-reading", PROTOCOL, rows, key="what"))
