"""Notes on a table: sentences that point out values of scored texts that are easy to misread."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tacenda.tokenizers import Tokenizer
from tacenda.vocabulary import UNKNOWN, Vocabulary
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.line_sketch import find_lines
from tacenda_lm.surprisal.words import ScoredText, sentence_starts
from tacenda_lm.unknown_words import Unknown

_MANY = 0.1  # share of the items, or of the unknown words, from which there is a note
_MIN_WORDS = 100  # of a text for that share; for a shorter text:
_MANY_IN_SHORT_TEXT, _MIN_UNKNOWN = 0.25, 3
_MIN_WORDS_OF_ONE_CASE = 20  # of a text all in capitals or all in lower case
_MIN_MISSPELLED = 0.001  # share of the words from which there is a note on their characters or cuts
_ATTACHED = ".,;:!?…\"'“”‘’()[]"


def caveats(
    model: LanguageModel,
    way: Unknown,
    texts: Sequence[ScoredText],
    tokenize: Tokenizer,
    *,
    as_fitted: bool = False,
) -> Iterator[str]:
    """Yield a sentence about each kind of values of scored texts that is easy to misread.

    ``way`` is how unknown words were scored, and ``tokenize`` splits a word as the texts were split. ``as_fitted`` says
    whether they are known to be tokenized like the text that the model was fitted to.
    """
    vocabulary = model.vocabulary
    yield from _note_unknown_tokens(vocabulary, way, texts, as_fitted)
    yield from _note_unknown_words(vocabulary, texts, tokenize)
    yield from _note_other_cuts(vocabulary, texts)
    yield from _note_empty_frequencies(vocabulary, texts)
    yield from _note_fitted_lines(model, texts)


def caveats_of_items(items: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a note if many items, given by their regions, seem to have several sentences, but are read as one."""
    several = 0
    for regions in items:
        inner = zip(regions[1:], sentence_starts(regions, "sentences")[1:], strict=True)
        # a capital letter after the end of a sentence
        several += any(begins and next(filter(str.isalnum, r), "").isupper() for r, begins in inner)
    if several and several >= _MANY * len(items):
        yield (
            f"{several:,} of {len(items):,} items seem to have several sentences, but each item is read as one "
            "sentence: use split='sentences', or name the column that distinguishes sentences (sentence), unless the "
            "training text of the model has several sentences per line"
        )


def _note_empty_frequencies(vocabulary: Vocabulary, texts: Sequence[ScoredText]) -> Iterator[str]:
    """Yield a note on words without a frequency."""
    if not vocabulary.counts.any():
        yield "the model has no counts of its training text, so log_frequency is empty"
    elif n := sum(int(np.isnan(text.log_frequency).sum()) for text in texts):
        n_words = sum(len(text.log_frequency) for text in texts)
        yield (
            f"log_frequency of {n:,} of {n_words:,} words is empty, because they consist of several tokens, and only "
            "tokens were counted: leave these words out, or fit the model again with count_words=True of "
            "Corpus.from_text (--count-words) and the tokenizer of this text"
        )


def _note_fitted_lines(model: LanguageModel, texts: Sequence[ScoredText]) -> Iterator[str]:
    """Yield a note on sentences that are lines of the text that the model was fitted to."""
    starts = np.cumsum([0, *(len(text.ids) for text in texts)])
    offsets = [text.sentences()[:-1] + start for text, start in zip(texts, starts, strict=False)]
    ids = np.concatenate([np.empty(0, np.int32), *(text.ids for text in texts)])
    found = find_lines(model, ids, np.concatenate([*offsets, starts[-1:]]))
    if found is not None and found.note is not None:
        yield found.note


def _note_unknown_tokens(
    vocabulary: Vocabulary, way: Unknown, texts: Sequence[ScoredText], as_fitted: bool
) -> Iterator[str]:
    """Yield notes on the bits of unknown tokens."""
    known = np.concatenate([text.known for text in texts]) if texts else np.ones(0, bool)
    tokens = [token for text in texts for word in text.words for token in word.tokens]
    unknown = [tokens[i] for i in np.flatnonzero(~known).tolist()]
    written = sum(token in vocabulary for token in unknown)
    n = len(unknown) - written
    share = f"{n:,} of {len(tokens):,} tokens are unknown"
    counts = vocabulary.counts
    if written:
        yield (
            f"{_count_tokens(written)} written {UNKNOWN} in the text: the table cannot know which words are meant, so "
            "their surprisal is that of all unknown words together"
        )
    if n and way == "class":
        yield (
            f"{share} and have the probability of all unknown words together: their surprisal is too low to be "
            "compared with that of known words; leave these words out, or use unknown='spelling'"
        )
    if n and counts.any() and not counts[vocabulary.oov_ids].any():
        yield (
            f"{share}, and the training text of the model had no unknown words: the model did not learn how likely one "
            "is, so their surprisal depends on smoothing; leave these words out, or fit the model with min_count=2"
        )
    attached = sum(
        token.strip(_ATTACHED) != token and token.strip(_ATTACHED) in vocabulary
        for token in unknown
    )
    if attached and not as_fitted:
        yield (
            f"{_count_tokens(attached)} unknown only because punctuation is attached: give the tokenizer of the text "
            "the model was fitted to, such as 'words'"
        )


def _note_unknown_words(
    vocabulary: Vocabulary, texts: Sequence[ScoredText], tokenize: Tokenizer
) -> Iterator[str]:
    """Yield notes on the number of unknown words, and on those that would be known in other characters."""
    n_words = sum(len(text.words) for text in texts)
    unknown = Counter(
        text.words[i].text for text in texts for i in np.flatnonzero(~text.known_words()).tolist()
    )
    n = unknown.total()
    many = _MANY if n_words >= _MIN_WORDS else _MANY_IN_SHORT_TEXT
    if n >= max(many * n_words, _MIN_UNKNOWN):
        yield (
            f"{n:,} of {n_words:,} words ({n / n_words:.0%}) are not wholly in the vocabulary, which was made of other "
            "text or of text that was tokenized or spelled differently: fit the model to text of the same kind, and "
            "report this share"
        )
    spellings = _list_spellings(vocabulary, [word.text for text in texts for word in text.words])
    # for each way to write words: how many, the first of them, and its new form
    better: dict[str, tuple[int, str, str]] = {}
    for word, times in unknown.items():
        if found := _find_known_spelling(word, vocabulary, tokenize, spellings):
            way, new = found
            n_before, first, new_first = better.get(way, (0, word, new))
            better[way] = n_before + times, first, new_first
    total = sum(times for times, _, _ in better.values())
    if total and total >= _MIN_MISSPELLED * n_words:
        ways = "; ".join(
            f"{times:,} with {way}, such as {new!r} for {word!r}"
            for way, (times, word, new) in better.items()
        )
        yield (
            f"{total:,} of {n_words:,} words would be known in other characters: {ways}; write the text in the "
            "characters of the text that the model was fitted to"
        )


# -- words that are cut differently --------------------------------------------------------------------


def _note_other_cuts(vocabulary: Vocabulary, texts: Sequence[ScoredText]) -> Iterator[str]:
    """Yield a note on words that are split differently from the vocabulary, such as "didn 't" for "did n't"."""
    found: Counter[tuple[str, str]] = Counter()
    for text in texts:
        tokens = [token for word in text.words for token in word.tokens]
        spans = {
            (start, start + 2)
            for i in np.flatnonzero(~text.known).tolist()
            for start in (i - 1, i)
            if tokens[i] not in vocabulary and 0 <= start < len(tokens) - 1
        }
        for start, end in spans:
            cut = tokens[start:end]
            # the word, whole or cut at an apostrophe ("did n't", "didn 't", "l' homme"), if all tokens are then known
            word = "".join(cut)
            places = [i for i, character in enumerate(word) if character in "'’"]
            ends = [i + step for i in places for step in (-1, 0, 1) if 0 < i + step < len(word)]
            options = [[word], *([word[:at], word[at:]] for at in ends)] if places else []
            known = [option for option in options if all(part in vocabulary for part in option)]
            if known:
                found[" ".join(cut), " ".join(known[0])] += 1
    n, n_tokens = found.total(), sum(len(text.known) for text in texts)
    if n and n >= _MIN_MISSPELLED * n_tokens:
        (old, new), _ = found.most_common(1)[0]
        yield (
            f"{n:,} {'word' if n == 1 else 'words'} would be known if not cut differently from the text that the model "
            f"was fitted to, such as {old!r} for {new!r}: tokenize the text in the same way"
        )


# -- words in other characters -------------------------------------------------------------------------

_APOSTROPHES, _QUOTES, _DASHES = "‘’‚‛ʼ′", "“”„‟″«»", "‐‑‒–−"
_PLAIN = {
    **dict.fromkeys(map(ord, _APOSTROPHES), "'"),
    **dict.fromkeys(map(ord, _QUOTES), '"'),
    **dict.fromkeys(map(ord, _DASHES), "-"),
    **{ord("—"): "--", ord("…"): "..."},
}
_OPENING = re.compile(r"""^(["'])(?=\S)""")

_Spellings = dict[str, Callable[[str], str]]


def _list_spellings(vocabulary: Vocabulary, words: Sequence[str]) -> _Spellings:
    """Return ways to write a word in other characters, by their descriptions.

    Lower case is one if no word of the vocabulary has a capital; other cases are if the whole text has one case.
    """
    found: _Spellings = {
        "composed accents (Unicode NFC)": lambda word: unicodedata.normalize("NFC", word),
        "decomposed accents (Unicode NFD)": lambda word: unicodedata.normalize("NFD", word),
        "plain quotation marks and dashes": lambda word: word.translate(_PLAIN),
        "typographic quotation marks and dashes": _use_typographic_marks,
        "the quotation marks `` and ''": lambda word: _OPENING.sub("`` ", word).replace('"', " ''"),
        "the usual forms of its characters (Unicode NFKC)": lambda word: unicodedata.normalize(
            "NFKC", word
        ).translate(_PLAIN),
    }
    if all(word == word.lower() for word in vocabulary.words):
        found["lower case"] = lambda word: found["plain quotation marks and dashes"](word).lower()
    elif len(words) >= _MIN_WORDS_OF_ONE_CASE:
        if all(word == word.upper() for word in words):
            found |= {"lower case": str.lower, "capital letters": _capitalize}
        elif all(word == word.lower() for word in words):
            found["capital letters"] = _capitalize
    return found


def _capitalize(word: str) -> str:
    """Return a word with a capital first letter, and all others in lower case."""
    start = next((i for i, character in enumerate(word) if character.isalpha()), 0)
    return word[:start] + word[start:].capitalize()


def _use_typographic_marks(word: str) -> str:
    """Return a word with the quotation marks, dashes and ellipses of printed text."""
    opened = _OPENING.sub(lambda mark: "“" if mark[1] == '"' else "‘", word)
    return opened.replace('"', "”").replace("'", "’").replace("--", "—").replace("...", "…")


def _find_known_spelling(
    word: str, vocabulary: Vocabulary, tokenize: Tokenizer, spellings: _Spellings
) -> tuple[str, str] | None:
    """Return the first way to write an unknown word that makes it known, and the word written so; None without one."""

    def is_known(spelled: str) -> bool:
        return all(token in vocabulary for part in spelled.split() for token in tokenize(part))

    if is_known(word):
        return None
    spelled = ((way, respell(word)) for way, respell in spellings.items())
    return next((found for found in spelled if is_known(found[1])), None)


def _count_tokens(n: int) -> str:
    """Return a number of tokens as the beginning of a sentence."""
    return "1 token is" if n == 1 else f"{n:,} tokens are"
