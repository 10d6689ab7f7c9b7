"""`surprisal_table`: a language model applied to texts or to the items of an experiment, one row for each word.

A word w of the tokens t_1 ... t_m, in the context h of all tokens before it, has

    surprisal(w | h) = -log2 p(w | h) = sum_i -log2 p(t_i | h, t_1 ... t_{i-1}),

the chain rule: tokens are summed and never averaged. ``surprisal_with_punctuation`` sums all tokens of the word, and
``surprisal`` those that are not punctuation at its ends, each given all tokens before it.

For a model with subwords, minicons (Misra, 2022, ``word_score_tokenized`` with ``surprisal=True, base_two=True,
bos_token=True``) computes the same as ``surprisal_with_punctuation`` here: the sum, in bits, over the tokens of what is
between whitespace, the first word given the beginning of the text.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from tacenda.corpus.doubts import collect_first_lines, doubt_lines, find_columns
from tacenda.corpus.lines import text_blocks, texts_of
from tacenda.corpus.marks import line_without_marks
from tacenda.errors import ConfigurationError, CorpusError, check_choice
from tacenda.tokenizers import (
    Tokenizer,
    choose_tokenizer,
    find_fitted_tokenizers,
    get_tokenizer,
    record_tokenizer,
)
from tacenda_lm.language_model import LanguageModel
from tacenda_lm.sequences import with_ends
from tacenda_lm.surprisal.items import Item
from tacenda_lm.surprisal.notes import caveats, caveats_of_items
from tacenda_lm.surprisal.table import SurprisalTable, check_previous, tabulate
from tacenda_lm.surprisal.words import ScoredText, Split, Word, region_words, text_words
from tacenda_lm.unknown_words import Unknown, UnknownWords

_TABLES = (".csv", ".tsv", ".tab")
#: A text is a string or, as a path, a file.
_OneText: TypeAlias = str | os.PathLike[str]
#: One text, several, texts by their names, or the items of an experiment.
Texts: TypeAlias = _OneText | Item | Iterable[_OneText | Item] | Mapping[Any, _OneText | Item]
#: Whether a word is scored given all words before it in its text, or in its sentence.
Reach: TypeAlias = Literal["text", "sentence"]


def surprisal_table(
    model: LanguageModel,
    texts: Texts,
    *,
    previous: int = 1,
    unknown: Unknown = "spelling",
    unseen_types: int | None = None,
    context: Reach = "text",
    split: Split = "lines",
    tokenizer: str | Tokenizer | None = None,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> SurprisalTable:
    """Return a table with the surprisal of every word, and further predictors for a regression on reading times.

    Parameters
    ----------
    model
        Any fitted language model.
    texts
        A string (a text) or a ``Path`` (a file); a list of several, or a dictionary that names them; or the items that
        `tacenda_lm.read_items` returns, whose regions are then the words. Texts without a name are numbered from 1, and
        files keep their names, with their folders if several files have the same name.
    previous
        Number of preceding words for which each row has columns, too (spill-over).
    unknown
        How a word outside the vocabulary shares the probability that the model gives to all such words together (see
        `tacenda_lm.unknown_words`): ``"spelling"`` (a letter model), ``"even"`` (an even share among
        ``unseen_types``), or ``"class"`` (all of it, as other packages do, which makes unknown words look easy).
    unseen_types
        For ``"even"``: the assumed number of words outside the vocabulary.
    context
        ``"text"``: a word is scored given all words before it in its text; ``"sentence"``: given the words before it in
        its sentence. The two differ only for models that look beyond ``</s>``.
    split
        ``"lines"``: a line is a sentence, as in the text a model is usually fitted to; ``"sentences"``: a line is also
        split after . ! ? and …. The model sees ``</s>`` after each sentence.
    tokenizer
        Splits each word into the model's tokens; see ``tacenda.tokenizers``. By default the tokenizer of the training
        text.
    encoding, errors
        Of files, as in ``open``.

    Returns
    -------
    A table. Its ``notes`` point out values that are easy to misread; each note is also a warning.

    Raises
    ------
    CorpusError
        A text cannot be read, or ``<s>`` or ``</s>`` is written in it.
    DataError
        There is no text, or the tokenizer makes no token of a word.
    ConfigurationError
        A setting is out of range, the model is not a language model, or its tokenizer was your own function, which you
        have to pass again.
    NotFittedError
        The model is not fitted.
    """
    if isinstance(model, type) or not hasattr(model, "score_corpus"):
        raise ConfigurationError(f"{model!r:.80} is not a language model: give one that is fitted")
    check_choice("context", context, Reach)
    check_choice("split", split, Split)
    check_previous(previous)
    tokenize = get_tokenizer(choose_tokenizer(model, tokenizer))
    shares = UnknownWords(model.vocabulary, unknown, unseen_types)
    read = list(_read_texts(texts, tokenize, split, encoding, errors))
    # whether the training text was certainly tokenized alike; a text split at spaces may have been tokenized before, in
    # any way
    fitted = find_fitted_tokenizers(model)
    same = tokenizer is None or {record_tokenizer(tokenizer)} == fitted
    as_fitted = same and not any("whitespace" in name for name in fitted)
    counts = model.vocabulary.split_words if as_fitted else None
    scored = [_score_text(model, shares, context, counts, text) for text in read]
    notes = [text.doubt for text in read if text.doubt is not None]
    notes += [f"{text.name} has no words, and no rows" for text in read if not text.words]
    notes += list(caveats(model, shares.way, scored, tokenize, as_fitted=as_fitted))
    notes += caveats_of_items([[word.text for word in text.words] for text in read if text.unsplit])
    return tabulate(scored, previous, notes)


class _Text(NamedTuple):
    """A text before it is scored."""

    name: str
    words: list[Word]
    others: Mapping[str, list[str]]
    # whether this is an item read as one sentence, with unknown sentence starts
    unsplit: bool = False
    doubt: str | None = None  # a note on why it is probably not running text


def _read_texts(
    texts: Texts, tokenize: Tokenizer, split: Split, encoding: str, errors: str
) -> Iterator[_Text]:
    """Yield the words of each text. Raises as `surprisal_table`."""
    if isinstance(texts, str | bytes | os.PathLike | Item) or not isinstance(texts, Iterable):
        texts = [texts]
    keyed: list[tuple[object, Any]] = list(
        texts.items() if isinstance(texts, Mapping) else ((None, text) for text in texts)
    )
    names = _choose_names(
        [_list_names(number, key, text) for number, (key, text) in enumerate(keyed, start=1)]
    )
    for name, (_, text) in zip(names, keyed, strict=True):
        if isinstance(text, Item):
            yield _read_item(name, text, tokenize, split)
        else:
            yield _read_running_text(name, text, tokenize, split, encoding, errors)


def _read_item(name: str, item: Item, tokenize: Tokenizer, split: Split) -> _Text:
    """Return the words of an item, which are its regions."""
    for region in item.regions:
        line_without_marks(region, "refuse", name, skippable=False)
    if item.starts is not None and split == "sentences":
        raise ConfigurationError(
            "a column of the items says where sentences begin (sentence): leave out split='sentences'"
        )
    words = list(region_words(item.regions, tokenize, split, item.starts))
    unsplit = item.starts is None and split == "lines"
    return _Text(name, words, item.others, unsplit)


def _read_running_text(
    name: str, text: _OneText, tokenize: Tokenizer, split: Split, encoding: str, errors: str
) -> _Text:
    """Return the words of a string or a file, with a doubt if it does not look like running text."""
    first: list[str] = []
    blocks = collect_first_lines(text_blocks(text, encoding, errors), first)
    whole = "\n".join(chain.from_iterable(texts_of(blocks, name, "refuse", skippable=False)))
    if isinstance(text, str):  # spans are places in the string as it was given
        whole = f" {text[1:]}" if text.startswith("\ufeff") else text
    doubt = doubt_lines(first, "save their text as plain text")
    suffixes = Path(text).suffixes if isinstance(text, os.PathLike) else []
    if find_columns(first) or any(suffix.lower() in _TABLES for suffix in suffixes):
        doubt = (
            f"{name} looks like a table, and all its columns are read as running text: name the column with the "
            "words or sentences, with --region COLUMN, or read_items(region=...) in Python"
        )
    return _Text(name, list(text_words(whole, tokenize, split)), {}, doubt=doubt)


def _list_names(number: int, key: object, text: object) -> tuple[str, ...]:
    """Return possible names of a text, the shortest first; ``key`` is its key in a dictionary of texts, or None.

    Raises CorpusError for an object that is not a text.
    """
    if not isinstance(text, str | os.PathLike | Item):
        raise CorpusError(
            f"a text must be a string, a Path or an item, not {text!r:.40} of type {type(text).__name__}"
        )
    if key is not None:
        return (str(key),)
    if isinstance(text, Item):
        return (text.name, *text.longer_names)
    return (str(number),) if isinstance(text, str) else (Path(text).name, str(Path(text)))


def _choose_names(choices: Sequence[Sequence[str]]) -> list[str]:
    """Return a unique name for each text: the shortest that is unique, or the longest followed by a number."""
    names = [choice[0] for choice in choices]
    for longer in (1, 2):
        times = Counter(names)
        names = [
            choice[min(longer, len(choice) - 1)] if times[name] > 1 else name
            for name, choice in zip(names, choices, strict=True)
        ]
    taken, seen = set(names), Counter[str]()
    for i, name in enumerate(names):
        seen[name] += 1
        if seen[name] > 1:
            while (numbered := f"{name} ({seen[name]})") in taken:
                seen[name] += 1
            names[i] = numbered
            taken.add(numbered)
    return names


def _score_text(
    model: LanguageModel,
    shares: UnknownWords,
    context: Reach,
    counts: Mapping[str, int] | None,
    text: _Text,
) -> ScoredText:
    """Return a text with the scores of its tokens."""
    vocabulary = model.vocabulary
    tokens = [token for word in text.words for token in word.tokens]
    sentences = groupby(text.words, key=lambda word: word.sentence)
    lengths = [sum(len(word.tokens) for word in words) for _, words in sentences]
    ids = vocabulary.encode(tokens)
    longer, ends = with_ends(ids, np.cumsum([0, *lengths]), vocabulary.boundary_id)
    log_probs = model.score_corpus(longer, ends if context == "sentence" else ends[[0, -1]])
    of_tokens = np.delete(log_probs, ends[1:] - 1)  # without </s>, which has no row in the table
    log_shares = shares.log_shares(tokens)
    scored = ScoredText.of(vocabulary, text.name, text.words, ids, of_tokens, log_shares, counts)
    return scored._replace(others=text.others)
