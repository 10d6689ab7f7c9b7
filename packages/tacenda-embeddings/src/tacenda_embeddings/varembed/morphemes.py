"""Which morphemes each word of a vocabulary is made of, and those of any other string.

Words are cut into unigram pieces, Morfessor's morphs, or overlapping n-grams of characters.
"""

from __future__ import annotations

import logging
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import digamma

from tacenda.arrays import Array, Float64, Int64, Offsets, UInt8, below, take
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda.forks import cached_property
from tacenda.progress import track
from tacenda.vocabulary import Vocabulary, pack_words, unpack_words

Ints = npt.NDArray[np.int64]

BASE = "<base>"
"""The first morpheme: every word has it, or none where the model has no base."""

_CAPITALS = "<Xx>", "<XX>", "<xX>"

MAX_PIECES = 16  # of a word, base and capitals not counted; the last one takes the rest


class Morphemes(NamedTuple):
    """Morphemes of one word: ids (known,) int64 of those that are known, and how many are not."""

    ids: Ints
    n_unknown: int


@dataclass(frozen=True, eq=False)
class Inventory:
    """The morphemes of a vocabulary, and the segmenter that finds those of any other word.

    Words are segmented in lower case; where the vocabulary keeps case, capitals are a morpheme of their own
    (``<Xx>``, ``<XX>`` or ``<xX>``). Special types, such as ``<unk>``, have none but the base.
    """

    vocabulary: Vocabulary
    segmenter: Segmenter
    names: tuple[str, ...]  # of the morphemes, `BASE` first, each once
    base: bool  # whether every word has the first one
    offsets: Ints  # (types + 1,): the morphemes of word i are ids[offsets[i] : offsets[i + 1]]
    ids: Ints

    @classmethod
    def learn(cls, vocabulary: Vocabulary, segmenter: str, n_morphemes: int, base: bool) -> Self:
        """Segment a vocabulary with a segmenter that is learned from it.

        Raises ConfigurationError where the segmenter is unknown or its package is not installed.
        """
        written = [
            "" if vocabulary.is_reserved(word) else _spell(word, vocabulary)
            for word in vocabulary.words
        ]
        distinct = list(dict.fromkeys(text.lower() for text in written if text))
        learned = learn_segmenter(segmenter, distinct, n_morphemes)
        cut = dict(zip(distinct, learned.segment_all(distinct), strict=True)) | {"": ()}
        names = {BASE: 0}
        offsets, ids = [0], []
        for text in written:
            pieces = (*_limit(cut[text.lower()], learned), *_capitals(text))
            ids += [0] * base + [names.setdefault(piece, len(names)) for piece in pieces]
            offsets.append(len(ids))
        found = np.array(offsets, np.int64), np.array(ids, np.int64)
        return cls(vocabulary, learned, tuple(names), base, *found)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def pieces(self, word: str) -> tuple[str, ...]:
        """Return the names of the morphemes of a word, known or not, without the base; none of ''."""
        vocabulary = self.vocabulary
        if word in vocabulary:
            i = vocabulary.id_of(word)
            own = self.ids[self.offsets[i] : self.offsets[i + 1]].tolist()
            return tuple(self.names[m] for m in own if m)
        written = _spell(vocabulary.normalization(word), vocabulary)
        return (
            *_limit(self.segmenter.segment(written.lower()), self.segmenter),
            *_capitals(written),
        )

    def morphemes(self, word: str) -> Morphemes:
        """Return the ids of the morphemes of any word, with the base, and how many more are unknown."""
        pieces = self.pieces(word)
        ids = [self._ids[piece] for piece in pieces if piece in self._ids]
        unknown = 0 if self.segmenter.skips_unknown else len(pieces) - len(ids)
        return Morphemes(np.array([0] * self.base + ids, np.int64), unknown)

    @cached_property
    def shared_ids(self) -> frozenset[int]:
        """The ids of the base and of capitals, which say nothing of what a word means."""
        return frozenset(self._ids[name] for name in (BASE, *_CAPITALS) if name in self._ids)

    def type_counts(self) -> Ints:
        """Return in how many words of the vocabulary each morpheme occurs, int64 (morphemes,)."""
        words = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        pairs = np.unique(words * len(self) + self.ids)
        return np.bincount(pairs % len(self), minlength=len(self)).astype(np.int64)

    @cached_property
    def incidence(self) -> csr_array:
        """The float32 matrix (types, morphemes) of how often each word has each morpheme."""
        ones = np.ones(len(self.ids), np.float32)
        shape = (len(self.offsets) - 1, len(self))
        return csr_array((ones, self.ids, self.offsets), shape=shape)

    def sum(self, vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the sums (types, width) of the morpheme vectors (morphemes, width) of every word."""
        return np.asarray(self.incidence @ vectors, np.float32)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything but the vocabulary, by names that begin with ``morphemes.`` or ``segmenter.``."""
        words = {"morphemes.word_offsets": self.offsets, "morphemes.word_ids": self.ids}
        return {**pack_names("morphemes.names", self.names), **words, **self.segmenter.arrays()}

    @classmethod
    def from_arrays(
        cls,
        vocabulary: Vocabulary,
        segmenter: str,
        base: bool,
        arrays: Mapping[str, npt.NDArray[Any]],
    ) -> Self:
        """Return an inventory from `arrays`. Raises ArtifactError."""
        names = unpack_names("morphemes.names", arrays)
        if not names or names[0] != BASE or len(set(names)) != len(names):
            raise ArtifactError(
                "a morpheme occurs twice, or the first one is not the base: the model is damaged"
            )
        sizes = {"types": len(vocabulary), "morphemes": len(names)}
        ids = take(arrays, "morphemes.word_ids", Int64[Array, "pieces", below("morphemes")], sizes)
        declared = Offsets[Array, "types pieces"]
        offsets = take(arrays, "morphemes.word_offsets", declared, sizes)
        learned = segmenter_from_arrays(segmenter, arrays)
        return cls(vocabulary, learned, tuple(names), base, offsets, ids)


def _spell(normalized: str, vocabulary: Vocabulary) -> str:
    """Return a normalized word as its letters are segmented: NUM is a digit again."""
    return normalized.replace("NUM", "0") if vocabulary.normalization.digits else normalized


def _limit(pieces: tuple[str, ...], segmenter: Segmenter) -> tuple[str, ...]:
    """Return at most `MAX_PIECES` pieces; n-grams are not limited."""
    if segmenter.skips_unknown or len(pieces) <= MAX_PIECES:
        return pieces
    return (*pieces[: MAX_PIECES - 1], "".join(pieces[MAX_PIECES - 1 :]))


def _capitals(word: str) -> tuple[str, ...]:
    """Return the morpheme of the capitals of a word, if it has any."""
    if word == word.lower():
        return ()
    title, upper, mixed = _CAPITALS
    if word[0].isupper() and word[1:] == word[1:].lower():
        return (title,)
    return (upper,) if word == word.upper() else (mixed,)


# -- segmenters -----------------------------------------------------------------------------------------

#: Marks pieces that begin a word.
BEGIN = "▁"
#: A longer word is cut in the middle before it is segmented, so that time stays linear in the text.
MAX_LETTERS = 100

_Table = npt.NDArray[np.int32]
_Floats = npt.NDArray[np.float64]

LONGEST = 14  # letters of a piece, the mark included
LEAST_TYPES = (
    3  # words that must share a substring for it to be a candidate, or an n-gram to be kept
)
CANDIDATES = 40  # for every piece that is kept
SHRINK = 0.7  # of the pieces survive a round of pruning
STEPS = 2  # of EM in a round
RARE = 0.5  # expected occurrences under which a piece is dropped at once
WORDS = 20_000  # of one length, treated together by the lattice
LETTER = -30.0  # log-probability of a letter that no piece covers
NGRAMS = (3, 4, 5, 6)
FINISH = 0.005  # Morfessor's own threshold: relative gain of an epoch under which it stops


class Segmenter:
    """Pieces, none empty, each once, with their natural log-probabilities; fixed once it is made."""

    name: ClassVar[str]
    #: Whether a piece that no word of the vocabulary has says nothing, because n-grams overlap and others
    #: speak for it; otherwise it stands for a morpheme never seen.
    skips_unknown: ClassVar[bool] = False

    def __init__(self, pieces: Sequence[str], log_probs: Sequence[float]) -> None:
        self.pieces, self.log_probs = tuple(pieces), np.asarray(log_probs, np.float64)
        self._costs = dict(zip(self.pieces, self.log_probs.tolist(), strict=True))
        self._longest = max(map(len, self.pieces), default=0)

    @classmethod
    def learn(cls, words: Sequence[str], n_morphemes: int) -> Self:
        """Learn from distinct words, none empty, each counted once."""
        raise NotImplementedError

    def segment(self, word: str) -> tuple[str, ...]:
        """Return the most probable pieces of any string; none of the empty one.

        Letters in a row that no piece covers become one unknown piece.
        """
        return best_pieces(_shorten(word), self._costs, self._longest, LETTER)[0]

    def segment_all(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the pieces of the words it learned from, which may be better known than by `segment`."""
        return [self.segment(word) for word in track(words, "segmenting", unit=" words")]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what it knows, by names that begin with ``segmenter.``."""
        names = pack_names("segmenter.pieces", self.pieces)
        return names if self.skips_unknown else {**names, "segmenter.log_probs": self.log_probs}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return a segmenter from the arrays of `arrays`. Raises ArtifactError."""
        pieces = unpack_names("segmenter.pieces", arrays)
        log_probs = np.zeros(len(pieces))
        if not cls.skips_unknown:
            declared = Float64[Array, "pieces"]
            log_probs = take(arrays, "segmenter.log_probs", declared, {"pieces": len(pieces)})
        if "" in pieces or len(set(pieces)) != len(pieces):
            raise ArtifactError("a piece of the segmenter is empty or there twice: it is damaged")
        return cls(pieces, log_probs.tolist())


def learn_segmenter(name: str, words: Sequence[str], n_morphemes: int) -> Segmenter:
    """Learn a segmenter; raises ConfigurationError for an unknown name, or a package that is not installed."""
    if name not in _SEGMENTERS:
        listed = ", ".join(_SEGMENTERS)
        raise ConfigurationError(f"there is no segmenter {name!r}; there are {listed}")
    return _SEGMENTERS[name].learn(words, n_morphemes)


def segmenter_from_arrays(name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Segmenter:
    """Return the segmenter of an artifact. Raises ArtifactError."""
    if name not in _SEGMENTERS:
        raise ArtifactError(f"its words were cut by {name!r}, a segmenter this release lacks")
    return _SEGMENTERS[name].from_arrays(arrays)


def _shorten(word: str) -> str:
    """Return the word, or the two ends of a very long one."""
    half = MAX_LETTERS // 2
    return word if len(word) <= MAX_LETTERS else word[:half] + word[-half:]


def pack_names(prefix: str, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Return ``<prefix>.text`` uint8 (bytes,) and ``<prefix>.offsets`` int64 (names + 1,)."""
    text, offsets = pack_words(names)
    return {f"{prefix}.text": text, f"{prefix}.offsets": offsets}


def unpack_names(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> list[str]:
    """Return the strings that `pack_names` packed. Raises ArtifactError."""
    sizes: dict[str, Any] = {}
    text = take(arrays, f"{prefix}.text", UInt8[Array, "bytes"], sizes)
    offsets = take(arrays, f"{prefix}.offsets", Offsets[Array, "names bytes"], sizes)
    return unpack_words(text, offsets, prefix)


def best_pieces(
    word: str, costs: Mapping[str, float], longest: int, letter: float
) -> tuple[tuple[str, ...], float]:
    """Find the most probable pieces of a word by Viterbi search; return them and their log-probability.

    ``costs`` has the log-probability of each piece, none longer than ``longest``; ``letter`` is that of a letter
    which is no piece. Of equals, the segmentation with the longer last piece wins.
    """
    n = len(word)
    best = [0.0] + [-math.inf] * n
    cut, known = [0] * (n + 1), [True] * (n + 1)
    for end in range(1, n + 1):
        for start in range(max(0, end - longest), end):
            cost = costs.get(word[start:end])
            if cost is not None and best[start] + cost > best[end]:
                best[end], cut[end], known[end] = best[start] + cost, start, True
        if best[end - 1] + letter > best[end]:
            best[end], cut[end], known[end] = best[end - 1] + letter, end - 1, False
    found: list[str] = []
    end, joins = n, False  # joins: the piece found last is unknown, and so may be the one before it
    while end:
        piece, unknown = word[cut[end] : end], not known[end]
        if unknown and joins:
            found[-1] = piece + found[-1]
        else:
            found.append(piece)
        end, joins = cut[end], unknown
    return tuple(reversed(found)), best[n]


# -- n-grams -------------------------------------------------------------------------------------------


class NGramSegmenter(Segmenter):
    """The n-grams of 3 to 6 letters, ends marked, that at least three words have (Bojanowski et al. 2017).

    Their number follows from the words; they overlap, and have no probabilities.
    """

    name = "ngrams"
    skips_unknown = True

    @classmethod
    def learn(cls, words: Sequence[str], n_morphemes: int) -> Self:
        counts: Counter[str] = Counter()
        for word in words:  # in the order of the word, not of hashes
            counts.update(dict.fromkeys(_ngrams(word), 1))
        kept = [ngram for ngram, count in counts.items() if count >= LEAST_TYPES]
        return cls(kept, [0.0] * len(kept))

    def segment(self, word: str) -> tuple[str, ...]:
        return tuple(ngram for ngram in dict.fromkeys(_ngrams(word)) if ngram in self._costs)


def _ngrams(word: str) -> list[str]:
    """Return all n-grams of a word between its marked ends."""
    marked = f"<{_shorten(word)}>" if word else ""
    return [marked[i : i + n] for i in range(len(marked)) for n in NGRAMS if i + n <= len(marked)]


# -- Morfessor -----------------------------------------------------------------------------------------


class MorfessorSegmenter(Segmenter):
    """The morphs of Morfessor Baseline (Creutz and Lagus 2002; Virpioja et al. 2013), and their frequencies.

    The package ``morfessor`` trains; a saved model does not need it: the segmentation of every word
    it was trained on goes into the inventory of the model, and a word never seen is cut by the frequencies of
    its morphs, as in Morfessor's own Viterbi search, without its prices for new morphs.
    """

    name = "morfessor"
    _learned: Mapping[str, tuple[str, ...]] = {}

    @classmethod
    def learn(cls, words: Sequence[str], n_morphemes: int) -> Self:
        """Learn morphs; Morfessor finds how many. Raises ConfigurationError where it is not installed."""
        try:
            from morfessor import BaselineModel
        except ImportError as error:
            raise ConfigurationError(
                f"the segmenter 'morfessor' needs the package morfessor ({error}): install it with "
                "pip install 'tacenda-embeddings[morfessor]', or choose segmenter='unigram'"
            ) from error
        short = {word: _shorten(word) for word in words}
        found = _train_morfessor(BaselineModel, sorted(set(short.values())))
        counts = Counter(piece for pieces in found.values() for piece in pieces)
        total = max(sum(counts.values()), 1)
        pieces = sorted(counts)
        segmenter = cls(pieces, [math.log(counts[piece] / total) for piece in pieces])
        segmenter._learned = {word: found[key] for word, key in short.items()}
        return segmenter

    def segment_all(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        return [self._learned.get(word) or self.segment(word) for word in words]


def _train_morfessor(baseline: Any, words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Train without a trace in the global generator, the log or the terminal, and return the segmentations."""
    import morfessor.utils as utils

    model = baseline()
    state = random.getstate()  # Morfessor shuffles by the global generator
    log, shown = logging.getLogger("morfessor"), utils.show_progress_bar
    level = log.level
    try:
        random.seed(0)
        log.setLevel(logging.ERROR)
        utils.show_progress_bar = False
        model.load_data([(1, word) for word in words], count_modifier=lambda _: 1)
        if words:
            model.train_batch(finish_threshold=FINISH)
    finally:
        random.setstate(state)
        log.setLevel(level)
        utils.show_progress_bar = shown
    label = "Morfessor: segmenting"
    return {word: tuple(model.viterbi_segment(word)[0]) for word in track(words, label)}


# -- unigram pieces ------------------------------------------------------------------------------------


class UnigramSegmenter(Segmenter):
    """Pieces and their probabilities by EM and pruning (Kudo 2018, section 3.2).

    A word is a sequence of pieces drawn independently. Starting from every substring that several words share,
    EM fits the probabilities, with the variational-Bayes M-step that drives rare pieces out, and the pieces
    whose loss costs the least likelihood are dropped until as many are left as wanted. Each word counts once,
    because what is wanted are morphemes and not frequent words. A mark tells pieces that begin a word; every letter
    stays a piece.
    """

    name = "unigram"

    @classmethod
    def learn(cls, words: Sequence[str], n_morphemes: int) -> Self:
        marked = sorted({BEGIN + _shorten(word) for word in words if word})
        pieces, single = _candidates(marked, n_morphemes)
        log_probs = _fit(Lattice(marked, pieces, LONGEST), pieces, single, n_morphemes)
        kept = np.flatnonzero(np.isfinite(log_probs)).tolist()
        return cls([pieces[i] for i in kept], log_probs[kept].tolist())

    def segment(self, word: str) -> tuple[str, ...]:
        if not word:
            return ()
        marked = BEGIN + _shorten(word)
        pieces = best_pieces(marked, self._costs, self._longest, LETTER)[0]
        # the mark by itself is no morpheme
        return pieces[1:] if pieces[0] == BEGIN and len(pieces) > 1 else pieces


def _candidates(words: Sequence[str], n_morphemes: int) -> tuple[list[str], npt.NDArray[np.bool_]]:
    """Return letters and shared substrings, and which of them are letters."""
    shared: Counter[str] = Counter()
    for word in track(words, "unigram segmenter: substrings", unit=" words"):
        n = len(word)
        shared.update({word[i:j] for i in range(n) for j in range(i + 2, min(n, i + LONGEST) + 1)})
    letters = sorted(set().union(*words))
    found = sorted(
        (piece for piece, count in shared.items() if count >= LEAST_TYPES),
        key=lambda piece: (-shared[piece] * (len(piece) - 1), piece),
    )[: CANDIDATES * n_morphemes]
    return letters + found, np.arange(len(letters) + len(found)) < len(letters)


def _fit(
    lattice: Lattice, pieces: Sequence[str], single: npt.NDArray[np.bool_], n_morphemes: int
) -> _Floats:
    """Return log-probabilities (pieces,) of the pieces that are kept, -inf for the others."""
    alive = np.ones(len(pieces), bool)
    log_probs = np.full(len(pieces), -np.log(max(len(pieces), 1)))
    while True:
        expected = np.zeros(len(pieces))
        for _ in range(STEPS):
            expected = lattice.expected_counts(log_probs)
            alive &= (expected > RARE) | single
            # VB M-step under a flat Dirichlet of vanishing weight: exp(digamma(c) - digamma(sum c))
            counts = np.maximum(expected, 0.1)
            found = digamma(counts) - digamma(counts[alive].sum())
            log_probs = np.where(alive, found, -np.inf)
        excess = int(alive.sum()) - n_morphemes
        droppable = np.flatnonzero(alive & ~single)
        if excess <= 0 or not len(droppable):
            return log_probs
        # what it costs in log-likelihood to build the uses of each piece from other pieces
        costs = {pieces[i]: float(log_probs[i]) for i in np.flatnonzero(alive).tolist()}
        loss = np.empty(len(droppable))
        for row, i in enumerate(track(droppable.tolist(), "unigram segmenter: pruning")):
            own = costs.pop(pieces[i])
            loss[row] = expected[i] * (own - best_pieces(pieces[i], costs, LONGEST, -1e6)[1])
            costs[pieces[i]] = own
        n = min(excess, len(droppable), max(1, int((1 - SHRINK) * alive.sum())))
        alive[droppable[np.argsort(loss, kind="stable")[:n]]] = False
        log_probs = np.where(alive, log_probs, -np.inf)


class Lattice:
    """All segmentations of many words at once: which pieces end where in which words.

    It does not change while the probabilities of the pieces are fitted. Words of one length are treated
    together, so that every step is an array operation over all of them. No word is empty, ``pieces`` are distinct
    and hold every letter of the words, and no piece has more than ``longest`` letters.
    """

    def __init__(self, words: Sequence[str], pieces: Sequence[str], longest: int) -> None:
        self.n_pieces = len(pieces)
        ids = {piece: i for i, piece in enumerate(pieces)}
        by_length: dict[int, list[str]] = {}
        for word in words:
            by_length.setdefault(len(word), []).append(word)
        self._tables = [
            _table(group[i : i + WORDS], ids, length, min(length, longest))
            for length, group in sorted(by_length.items())
            for i in range(0, len(group), WORDS)
        ]

    def expected_counts(self, log_probs: _Floats) -> _Floats:
        """Return how often each piece is expected in all segmentations of every word (pieces,).

        By the forward-backward algorithm; ``log_probs`` (pieces,) holds -inf for a piece that is not used.
        """
        padded = np.append(log_probs, -np.inf)  # the last place stands for what is no piece
        found = np.zeros(self.n_pieces + 1)
        with np.errstate(invalid="ignore"):  # -inf less -inf, where no segmentation leads
            for table in self._tables:
                _add_expected_counts(found, table, padded)
        return found[:-1]


def _add_expected_counts(found: _Floats, table: _Table, padded: _Floats) -> None:
    """Add the expected counts of the words of one table."""
    scores = padded[table]
    length, longest, n = table.shape
    # log-probabilities of every beginning and every end of every word, (length + 1, words)
    before, after = np.full((2, length + 1, n), -np.inf)
    before[0] = after[length] = 0.0
    # forward-backward: before[end] sums over the last piece before ``end``, after[start] over the first one from there
    for end in range(1, length + 1):
        m = min(end, longest)
        before[end] = np.logaddexp.reduce(before[end - m : end][::-1] + scores[end - 1, :m], axis=0)
    for end in range(length, 0, -1):
        m = min(end, longest)
        ways = (after[end] + scores[end - 1, :m])[::-1]
        after[end - m : end] = np.logaddexp(after[end - m : end], ways)
    # the posterior of a piece that ends here: before x piece x after / all segmentations of the word
    for end in range(1, length + 1):
        m = min(end, longest)
        ways = before[end - m : end][::-1] + scores[end - 1, :m] + after[end] - before[length]
        weights = np.nan_to_num(np.exp(ways), nan=0.0).ravel()
        found += np.bincount(table[end - 1, :m].ravel(), weights, minlength=len(found))


def _table(words: list[str], ids: dict[str, int], length: int, longest: int) -> _Table:
    """Return by (end - 1, letters - 1, word) the piece of so many letters that ends there, or one past all."""
    table = np.full((length, longest, len(words)), len(ids), np.int32)
    for column, word in enumerate(words):
        for end in range(1, length + 1):
            for letters in range(1, min(end, longest) + 1):
                table[end - 1, letters - 1, column] = ids.get(word[end - letters : end], len(ids))
    return table


_SEGMENTERS: dict[str, type[Segmenter]] = {
    each.name: each for each in (UnigramSegmenter, MorfessorSegmenter, NGramSegmenter)
}
