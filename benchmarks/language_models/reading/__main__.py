"""How much of the times in which people read words a model's surprisal explains, beyond length and frequency.

    python -m benchmarks.language_models.reading [--only given unigrams ngrams mixture hlbl hlbl-mixture vlhmm]

Natural Stories, 100 English novels and English Wikipedia, from TACENDA_DATA or the cache. Fitted models are kept and a
fit that was broken off goes on; rows that were measured stay in the result until they are measured again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import parts, reporting
from benchmarks.language_models.kept import kept
from benchmarks.language_models.reading import texts
from benchmarks.language_models.reading.stories import Matrix, Stories, before, gain
from tacenda import Corpus
from tacenda_lm import (
    HLBL,
    VLHMM,
    KneserNey,
    LanguageModel,
    Mixture,
    SurprisalTable,
)

Row = dict[str, Any]
RESULT = "lm-reading"
ORDERS = {"novels": (2, 3, 4, 5, 6), "wikipedia": (2, 3, 4, 5, 6), "both": (2, 3, 4, 5)}
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
EXPECTED = {
    *("GPT-3", "Google's bigrams", "Google's trigrams", "HLBL, both", "VLHMM, novels", *MIXTURES),
    *(f"unigrams, {text}" for text in ("novels", "wikipedia")),
    *(f"KneserNey({order}), {text}" for text, orders in ORDERS.items() for order in orders),
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
        measures: tuple[str, ...]
        if kind == "HLBL":
            model, measures, short = HLBL(**HLBL_SETTINGS), parts.BILINEAR, "hlbl"
        elif kind == "VLHMM":
            model, measures, short = VLHMM(**VLHMM_SETTINGS), parts.MARKOV, "vlhmm"
        else:
            model, measures, short = KneserNey(order=int(kind[-2])), parts.NGRAMS, "kneser_ney"

        def fit(checkpoints: Any) -> LanguageModel:
            if not model.keeps_checkpoints:
                return model.fit(self.text(text))  # type: ignore[no-any-return]
            return model.fit(self.text(text), self.held_out, checkpoints=checkpoints)  # type: ignore[no-any-return]

        # that of Wikipedia is the one of `scale`, if it is kept
        found, _ = kept(f"{short}-{text}-0", model.settings.to_dict(), measures, fit)
        self._last = (name, found)
        return found  # type: ignore[no-any-return]

    def mixed(self, names: tuple[str, ...]) -> Mixture:
        """Models together, with weights fitted to held-out text."""
        mixture = Mixture({each: self.fitted(each) for each in names})
        return mixture.fit_weights(self.held_out)


def given(stories: Stories, study: Study, models: Models) -> Iterator[Row]:
    """What was published with the stories."""
    row = study.row(stories.gpt3("whole"), stories.gpt3("word"))
    yield {"what": "GPT-3", **row, "on GPT-3": None}
    for order, name in ((2, "bigrams"), (3, "trigrams")):
        found = [stories.google(order, part) for part in ("whole", "word")]
        yield {"what": f"Google's {name}", **study.row(*found)}


def unigrams(stories: Stories, study: Study, models: Models) -> Iterator[Row]:
    """The frequencies of our texts."""
    for text in ("novels", "wikipedia"):
        model = models.fitted(f"KneserNey(1), {text}")
        yield {"what": f"unigrams, {text}", **_scored(study, stories.scored(model))}


def ngrams(stories: Stories, study: Study, models: Models) -> Iterator[Row]:
    """Kneser-Ney of every order on every text."""
    for text, orders in ORDERS.items():
        for order in orders:
            name = f"KneserNey({order}), {text}"
            yield {"what": name, **_scored(study, stories.scored(models.fitted(name)))}


def alone(name: str) -> Callable[[Stories, Study, Models], Iterator[Row]]:
    """One model."""

    def rows(stories: Stories, study: Study, models: Models) -> Iterator[Row]:
        yield {"what": name, **_scored(study, stories.scored(models.fitted(name)))}

    return rows


def mixed(name: str) -> Callable[[Stories, Study, Models], Iterator[Row]]:
    """One mixture, with its weights."""

    def rows(stories: Stories, study: Study, models: Models) -> Iterator[Row]:
        model = models.mixed(MIXTURES[name])
        row = _scored(study, stories.scored(model))
        yield {"what": name, **row, "weights": model.weights}

    return rows


def _scored(study: Study, table: SurprisalTable) -> Row:
    columns = [
        np.asarray(table[each], float) for each in ("surprisal_with_punctuation", "surprisal")
    ]
    return study.row(*columns)


PARTS: dict[str, Callable[[Stories, Study, Models], Iterator[Row]]] = {
    "given": given,
    "unigrams": unigrams,
    "ngrams": ngrams,
    "mixture": mixed("KneserNey(5), novels + Wikipedia"),
    "hlbl": alone("HLBL, both"),
    "hlbl-mixture": mixed("HLBL + KneserNey(5), novels + Wikipedia"),
    "vlhmm": alone("VLHMM, novels"),
}


def main() -> None:
    parser = reporting.Command(__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--texts", nargs="+", choices=texts.TEXTS, default=texts.TEXTS, help="of the n-grams"
    )
    parser.add_argument("--orders", type=int, nargs="+", help="of the n-grams; by default all")
    options = parser.parse_args()
    for text, orders in ORDERS.items():
        chosen = options.orders or orders if text in options.texts else ()
        ORDERS[text] = tuple(each for each in orders if each in chosen)
    stories, models = Stories(), Models()
    study = Study(stories, stories.known(models.text("wikipedia").vocabulary))
    rows: list[Row] = []
    for part in options.only:
        for row in PARTS[part](stories, study, models):
            rows.append(row)
            reporting.save(
                RESULT, PROTOCOL, rows, seeds=(0,), keep="what", unfinished=missing(rows)
            )


def missing(rows: list[Row]) -> bool:
    """Whether rows are in neither the result nor these."""
    path = reporting.RESULTS / f"{RESULT}.json"
    kept_rows = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    return not {row["what"] for row in [*kept_rows, *rows]} >= EXPECTED


if __name__ == "__main__":
    main()
