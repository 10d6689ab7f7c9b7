"""Segmenters of words: unigram pieces, Morfessor's morphs, or overlapping n-grams of characters."""

from __future__ import annotations

import logging
import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from tacenda.arrays import Array, Arrays, Float64, Offsets, UInt8, named
from tacenda.errors import ArtifactError, importing
from tacenda.forks import cached_property
from tacenda.offsets import pack_words, unpack_words
from tacenda.progress import track

Pieces = tuple[str, ...]

#: The first letter of a piece that begins a word.
BEGIN = "▁"
#: Pieces of a word, unless they overlap; the last one is the rest of the word.
MAX_PIECES = 16
#: The middle of a longer word is left out before it is segmented, so that time stays linear in the text.
MAX_LETTERS = 100

_Floats = npt.NDArray[np.float64]

#: Pieces of words of one length, int32 (length, longest, words): entry (e - 1, n - 1, w) is the id of the piece of n
#: letters that ends at letter e of word w, or the number of pieces if there is no such piece.
_Table = npt.NDArray[np.int32]
#: Tables of words of all lengths, so that every step is an array operation over many words.
Lattice = list[_Table]

MAX_PIECE_LETTERS = 14  # with `BEGIN`
#: Words that must share a substring for it to be a candidate, or an n-gram to be kept.
MIN_TYPES = 3
CANDIDATES_PER_PIECE = 40  # for every piece that is kept
SURVIVING_SHARE = 0.7  # of the pieces, in a round of pruning
EM_STEPS = 2  # in a round
MIN_EXPECTED_COUNT = 0.5  # a piece with fewer expected occurrences is dropped at once
MIN_DIRICHLET_COUNT = 0.1  # in the M-step, because the digamma function diverges at 0
LATTICE_WORDS = 20_000  # of one length, treated together by the lattice
LETTER_LOG_PROB = -30.0  # of a letter that no piece covers
NGRAM_LENGTHS = (3, 4, 5, 6)
FINISH_THRESHOLD = 0.005  # Morfessor's default: it stops at a smaller relative gain of an epoch


class Segmenter(Arrays):
    """Distinct non-empty pieces, which segment words; immutable."""

    name: ClassVar[str]
    #: Whether the pieces of a word overlap, as n-grams do; otherwise each letter belongs to one piece.
    overlaps: ClassVar[bool] = False

    text: UInt8[Array, "bytes", named("segmenter.pieces.text")]
    offsets: Offsets[Array, "pieces bytes", named("segmenter.pieces.offsets")]

    @classmethod
    def learn(cls, words: Sequence[str], n_morphemes: int) -> tuple[Self, list[Pieces]]:
        """Learn pieces from distinct non-empty words, each counted once.

        ``n_morphemes`` is the number of pieces to keep, unless the segmenter finds their number itself. Returns the
        segmenter, and the pieces of these words, which may be better than those of `segment`.
        """
        raise NotImplementedError

    def segment(self, words: Iterable[str]) -> list[Pieces]:
        """Return the pieces of any strings; the empty string has none."""
        raise NotImplementedError

    @cached_property
    def pieces(self) -> Pieces:
        """The pieces, each once."""
        return tuple(unpack_words(self.text, self.offsets, "segmenter.pieces"))

    def check_saved(self) -> None:
        """Raise ArtifactError if a piece is empty or occurs twice."""
        if "" in self.pieces or len(set(self.pieces)) != len(self.pieces):
            raise ArtifactError("a piece of the segmenter is empty or occurs twice: it is damaged")


class Lexicon(Segmenter):
    """Pieces with natural log-probabilities, by which they compete for the letters of a word."""

    #: A letter before every word, so that pieces that begin a word are pieces of their own.
    begin: ClassVar[str] = ""

    log_probs: Float64[Array, "pieces", named("segmenter.log_probs")]

    def segment(self, words: Iterable[str]) -> list[Pieces]:
        """Return the most probable pieces of any strings; the empty string has none.

        Adjacent letters that no piece covers become one unknown piece.
        """
        trie, begin = self._trie, self.begin
        marked = (begin + _shorten(word) if word else "" for word in words)
        found = (find_best_pieces(word, trie, LETTER_LOG_PROB)[0] for word in marked)
        # the mark alone is no morpheme
        return [_limit(p[1:] if len(p) > 1 and p[0] == begin else p) for p in found]

    @cached_property
    def _trie(self) -> Trie:
        return build_trie(self.pieces, self.log_probs)


def _limit(pieces: Pieces) -> Pieces:
    """Return at most `MAX_PIECES` pieces."""
    if len(pieces) <= MAX_PIECES:
        return pieces
    return (*pieces[: MAX_PIECES - 1], "".join(pieces[MAX_PIECES - 1 :]))


def _shorten(word: str) -> str:
    """Return the word, or the two ends of a very long one."""
    half = MAX_LETTERS // 2
    return word if len(word) <= MAX_LETTERS else word[:half] + word[-half:]


#: Pieces by their letters: for each letter, the log-probability of the piece that ends with it, and how pieces go on.
Trie = dict[str, tuple[float, "Trie"]]


def build_trie(pieces: Sequence[str], log_probs: _Floats) -> Trie:
    """Return distinct non-empty pieces, each with its log-probability (pieces,), as a trie."""
    trie: Trie = {}
    for piece, log_prob in zip(pieces, log_probs.tolist(), strict=True):
        node = trie
        for letter in piece[:-1]:
            node = node.setdefault(letter, (-math.inf, {}))[1]
        longer = node[piece[-1]][1] if piece[-1] in node else {}
        node[piece[-1]] = (log_prob, longer)
    return trie


def find_best_pieces(
    word: str, trie: Trie, letter: float, *, whole: bool = True
) -> tuple[Pieces, float]:
    """Find the most probable pieces of a word by Viterbi search; return them and their log-probability.

    ``letter`` is the log-probability of a letter which is no piece. Without ``whole``, the word itself is no piece. Of
    equally probable segmentations, the one with the longer last piece is returned.
    """
    n = len(word)
    best = [0.0] + [-math.inf] * n
    cut, known = [0] * (n + 1), [True] * (n + 1)
    for start in range(n):
        before, node = best[start], trie
        for end, character in enumerate(word[start : n if whole or start else n - 1], start + 1):
            found = node.get(character)
            if found is None:
                break
            log_prob, node = found
            if before + log_prob > best[end]:
                best[end], cut[end], known[end] = before + log_prob, start, True
        if before + letter > best[start + 1]:
            best[start + 1], cut[start + 1], known[start + 1] = before + letter, start, False
    reversed_pieces: list[str] = []
    end, next_is_unknown = n, False
    while end:
        piece, is_unknown = word[cut[end] : end], not known[end]
        if is_unknown and next_is_unknown:  # adjacent unknown letters are one piece
            reversed_pieces[-1] = piece + reversed_pieces[-1]
        else:
            reversed_pieces.append(piece)
        end, next_is_unknown = cut[end], is_unknown
    return tuple(reversed(reversed_pieces)), best[n]


# -- n-grams -------------------------------------------------------------------------------------------


class NGramSegmenter(Segmenter):
    """The n-grams of 3 to 6 letters, ends marked, that at least three words have (Bojanowski et al. 2017)."""

    name = "ngrams"
    overlaps = True

    @classmethod
    def learn(cls, words: Sequence[str], n_morphemes: int) -> tuple[Self, list[Pieces]]:
        counts: Counter[str] = Counter()
        for word in words:
            # a dict and not a set, whose order depends on the hashes of strings
            counts.update(dict.fromkeys(_list_ngrams(word), 1))
        ngrams = [ngram for ngram, count in counts.items() if count >= MIN_TYPES]
        segmenter = cls(*pack_words(ngrams))
        return segmenter, segmenter.segment(track(words, "segmenting", unit=" words"))

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.pieces)

    def segment(self, words: Iterable[str]) -> list[Pieces]:
        ngrams = (dict.fromkeys(_list_ngrams(word)) for word in words)
        return [tuple(filter(self._known.__contains__, distinct)) for distinct in ngrams]


def _list_ngrams(word: str) -> list[str]:
    """Return all n-grams of a word, with "<" before and ">" after it."""
    marked = f"<{_shorten(word)}>" if word else ""
    end = len(marked)
    return [marked[i : i + n] for i in range(end) for n in NGRAM_LENGTHS if i + n <= end]


# -- Morfessor -----------------------------------------------------------------------------------------


class MorfessorSegmenter(Lexicon):
    """The morphs of Morfessor Baseline (Creutz and Lagus 2002; Virpioja et al. 2013), and their frequencies.

    Only training needs the package ``morfessor``. The segmentations of the words that it was trained on are in the
    inventory of the model. Other words are segmented by the frequencies of the morphs, as in Morfessor's own Viterbi
    search, but without its costs of new morphs.
    """

    name = "morfessor"

    @classmethod
    def learn(cls, words: Sequence[str], n_morphemes: int) -> tuple[Self, list[Pieces]]:
        """Learn morphs, whose number Morfessor chooses. Raises ConfigurationError if it is not installed."""
        need = "the segmenter 'morfessor' needs the package morfessor"
        with importing(need, "tacenda-embeddings[morfessor]", ", or choose segmenter='unigram'"):
            from morfessor import BaselineModel
        short = [_shorten(word) for word in words]
        segmented = _train_morfessor(BaselineModel, sorted(set(short)))
        counts = Counter(piece for pieces in segmented.values() for piece in pieces)
        total = max(sum(counts.values()), 1)
        pieces = sorted(counts)
        log_probs = np.array([math.log(counts[piece] / total) for piece in pieces])
        segmenter = cls(*pack_words(pieces), log_probs)
        return segmenter, [_limit(segmented[word]) for word in short]


def _train_morfessor(baseline: Any, words: Sequence[str]) -> dict[str, Pieces]:
    """Train Morfessor and return its segmentations; restores its global generator, log level and progress bar."""
    import morfessor.utils as utils

    model, log = baseline(), logging.getLogger("morfessor")
    with ExitStack() as restore:
        restore.callback(random.setstate, random.getstate())
        restore.callback(log.setLevel, log.level)
        restore.callback(setattr, utils, "show_progress_bar", utils.show_progress_bar)
        random.seed(0)  # Morfessor shuffles by the global generator
        log.setLevel(logging.ERROR)
        utils.show_progress_bar = False
        model.load_data([(1, word) for word in words], count_modifier=lambda _: 1)
        if words:
            model.train_batch(finish_threshold=FINISH_THRESHOLD)
    label = "Morfessor: segmenting"
    return {word: tuple(model.viterbi_segment(word)[0]) for word in track(words, label)}


# -- unigram pieces ------------------------------------------------------------------------------------


class UnigramSegmenter(Lexicon):
    """Pieces and their probabilities by EM and pruning (Kudo 2018, section 3.2).

    The pieces of a word are drawn independently. Training starts from every substring that several words share. EM
    fits the probabilities, with a variational Bayes M-step, which removes rare pieces, and the pieces whose removal
    costs the least likelihood are dropped until the wanted number is left. Each word counts once, because the pieces
    are to be morphemes and not frequent words. Pieces that begin a word are marked. Single letters are never dropped.
    """

    name = "unigram"
    begin = BEGIN

    @classmethod
    def learn(cls, words: Sequence[str], n_morphemes: int) -> tuple[Self, list[Pieces]]:
        marked = sorted({BEGIN + _shorten(word) for word in words if word})
        pieces, is_letter = _collect_candidates(marked, n_morphemes)
        lattice = build_lattice(marked, pieces, MAX_PIECE_LETTERS)
        log_probs = _fit_pieces(lattice, pieces, is_letter, n_morphemes)
        kept = np.flatnonzero(np.isfinite(log_probs)).tolist()
        segmenter = cls(*pack_words([pieces[i] for i in kept]), log_probs[kept])
        return segmenter, segmenter.segment(track(words, "segmenting", unit=" words"))


def _collect_candidates(
    words: Sequence[str], n_morphemes: int
) -> tuple[list[str], npt.NDArray[np.bool_]]:
    """Return letters and shared substrings, and which of them are letters (pieces,)."""
    shared: Counter[str] = Counter()
    for word in track(words, "unigram segmenter: substrings", unit=" words"):
        n = len(word)
        shared.update(
            {word[i:j] for i in range(n) for j in range(i + 2, min(n, i + MAX_PIECE_LETTERS) + 1)}
        )
    letters = sorted(set().union(*words))
    # a substring saves a piece for each letter but one, wherever it occurs
    substrings = sorted(
        (piece for piece, count in shared.items() if count >= MIN_TYPES),
        key=lambda piece: (-shared[piece] * (len(piece) - 1), piece),
    )[: CANDIDATES_PER_PIECE * n_morphemes]
    return letters + substrings, np.arange(len(letters) + len(substrings)) < len(letters)


def _fit_pieces(
    lattice: Lattice, pieces: Sequence[str], is_letter: npt.NDArray[np.bool_], n_morphemes: int
) -> _Floats:
    """Return natural log-probabilities (pieces,) of the pieces that are kept, -inf for the others."""
    alive = np.ones(len(pieces), bool)
    log_probs = np.full(len(pieces), -np.log(max(len(pieces), 1)))
    while True:
        expected = np.zeros(len(pieces))
        for _ in range(EM_STEPS):
            expected = compute_expected_counts(lattice, log_probs)
            alive &= (expected > MIN_EXPECTED_COUNT) | is_letter
            # VB M-step under a flat Dirichlet of vanishing weight: exp(digamma(c) - digamma(sum c))
            counts = np.maximum(expected, MIN_DIRICHLET_COUNT)
            updated = digamma(counts) - digamma(counts[alive].sum())
            log_probs = np.where(alive, updated, -np.inf)
        excess = int(alive.sum()) - n_morphemes
        droppable = np.flatnonzero(alive & ~is_letter)
        if excess <= 0 or not len(droppable):
            return log_probs
        # the log-likelihood that is lost when other pieces replace each piece
        left = np.flatnonzero(alive).tolist()
        trie = build_trie([pieces[i] for i in left], log_probs[left])
        replacements = [
            # -inf, because every letter is a piece
            find_best_pieces(pieces[i], trie, -math.inf, whole=False)[1]
            for i in droppable.tolist()
        ]
        loss = expected[droppable] * (log_probs[droppable] - replacements)
        n = min(excess, len(droppable), max(1, int((1 - SURVIVING_SHARE) * alive.sum())))
        alive[droppable[np.argsort(loss, kind="stable")[:n]]] = False
        log_probs = np.where(alive, log_probs, -np.inf)


def build_lattice(words: Sequence[str], pieces: Sequence[str], longest: int) -> Lattice:
    """Return all segmentations of many words, which do not depend on the probabilities of the pieces.

    No word is empty, ``pieces`` are distinct and include every letter of the words, and no piece has more than
    ``longest`` letters.
    """
    ids = {piece: i for i, piece in enumerate(pieces)}
    by_length: dict[int, list[str]] = {}
    for word in words:
        by_length.setdefault(len(word), []).append(word)
    return [
        _build_table(group[i : i + LATTICE_WORDS], ids, min(length, longest))
        for length, group in sorted(by_length.items())
        for i in range(0, len(group), LATTICE_WORDS)
    ]


def _build_table(words: list[str], ids: dict[str, int], longest: int) -> _Table:
    """Return the table of words of one length, in which a piece has at most ``longest`` letters."""
    table = np.full((len(words[0]), longest, len(words)), len(ids), np.int32)
    for column, word in enumerate(words):
        for end in range(1, len(word) + 1):
            for letters in range(1, min(end, longest) + 1):
                table[end - 1, letters - 1, column] = ids.get(word[end - letters : end], len(ids))
    return table


def compute_expected_counts(lattice: Lattice, log_probs: _Floats) -> _Floats:
    """Return the expected number of occurrences (pieces,) of each piece over the segmentations of all words.

    This is the forward-backward algorithm. ``log_probs`` (pieces,) is -inf for a piece that is not used.
    """
    padded = np.append(log_probs, -np.inf)  # the last one is for substrings that are no piece
    total = np.zeros(len(padded))
    # no segmentation passes through some positions: -inf minus -inf
    with np.errstate(invalid="ignore"):
        for table in lattice:
            _add_expected_counts(total, table, padded)
    return total[:-1]


def _add_expected_counts(total: _Floats, table: _Table, log_probs: _Floats) -> None:
    """Add the expected counts of the words of one table to ``total`` (pieces + 1,)."""
    scores = log_probs[table]
    length, longest, n = table.shape
    # before[i] and after[i], (length + 1, words): log-probability of the first i letters, and of the letters from i on
    before, after = np.full((2, length + 1, n), -np.inf)
    before[0] = after[length] = 0.0
    # before[end] sums over the last piece before ``end``, after[start] over the first piece from ``start`` on
    for end in range(1, length + 1):
        m = min(end, longest)
        before[end] = np.logaddexp.reduce(before[end - m : end][::-1] + scores[end - 1, :m], axis=0)
    for end in range(length, 0, -1):
        m = min(end, longest)
        paths = (after[end] + scores[end - 1, :m])[::-1]
        after[end - m : end] = np.logaddexp(after[end - m : end], paths)
    # the posterior of a piece that ends here: before x piece x after / all segmentations of the word
    for end in range(1, length + 1):
        m = min(end, longest)
        paths = before[end - m : end][::-1] + scores[end - 1, :m] + after[end] - before[length]
        posterior = np.nan_to_num(np.exp(paths), nan=0.0).ravel()
        total += np.bincount(table[end - 1, :m].ravel(), posterior, minlength=len(total))


AnySegmenter = UnigramSegmenter | MorfessorSegmenter | NGramSegmenter

#: The segmenters by the name that the option ``segmenter`` has.
SEGMENTERS: dict[str, type[AnySegmenter]] = {
    segmenter.name: segmenter
    for segmenter in (UnigramSegmenter, MorfessorSegmenter, NGramSegmenter)
}
