"""`Perplexity`: a number that carries the protocol of its measurement, and the warnings that a measurement gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from tacenda.errors import ConfigurationError, warn
from tacenda.forks import cached_property
from tacenda.tokenizers import ASCII_WHITESPACE, find_recorded_tokenizers, is_own
from tacenda_lm.sequences import BlankLines, Block, Float64, Offsets
from tacenda_lm.unknown_words import UnknownWords

#: The context of a sentence: none, or all sentences before it.
Context: TypeAlias = Literal["sentence", "stream"]

_IMPLAUSIBLE_PERPLEXITY = 1e15  # a uniform guess among so many words would be better
_MIN_WORDS_TO_WARN = 50  # of a text with many unknown words
# a warning is given if the share of unknown words exceeds the share in the training text by this
_MORE_UNKNOWN = 0.2
_MORE_UNKNOWN_SPLIT = 0.1  # the same for a text that another tokenizer split
_PROTOCOL = (
    "exp of the mean negative natural log-probability of every predicted token of the whole text; "
    "</s> is predicted after every sentence, <s> is context only; {blank}; "
    "a word outside the vocabulary, a written <unk> among them, is scored as the <unk> of the model and counted; "
    "bits per character add the bits of how such a word is spelled"
)
_BLANK_LINES: dict[str, str] = {
    "skip": "empty lines are no sentences",
    "count": "an empty line is a sentence of </s> alone",
}
_CONTEXTS: dict[str, str] = {
    "sentence": "every sentence is scored by itself",
    "stream": "the text is scored as one stream, every sentence after all before it",
}


class Perplexity(float):
    """The perplexity of a text: a float that also knows how it was measured.

    The number counts every word and the ``</s>`` after every sentence. Words outside the vocabulary have the
    probability of ``<unk>``. An empty text has a perplexity of NaN.
    """

    #: Natural log-probability of the words of the vocabulary.
    log_prob_known: float
    #: Natural log-probability of the words outside the vocabulary.
    log_prob_oov: float
    #: Natural log-probability of ``</s>``.
    log_prob_eos: float
    #: Number of sentences, each with one ``</s>``.
    n_sentences: int
    #: Number of tokens without ``</s>``.
    n_words: int
    #: Number of words outside the vocabulary.
    n_oov: int
    #: Whether sentences were scored by themselves or as one stream.
    context: Context = "sentence"
    #: Whether a sentence without words was left out or counted.
    blank_lines: BlankLines = "skip"
    _spell: Callable[[], tuple[int | None, float | None]] | None = None

    def __new__(cls, **sums: Any) -> Self:
        """Make a perplexity from sums over a text, given by the names of the attributes.

        ``n_characters`` and ``log_prob_spelling`` can be left to a function ``_spell``, which computes them on request.
        """
        unknown = sums.keys() - _ATTRIBUTES
        if unknown:
            raise TypeError(f"a Perplexity is not made from {min(unknown)!r}")
        log_prob = sums["log_prob_known"] + sums["log_prob_oov"] + sums["log_prob_eos"]
        n_tokens = sums["n_words"] + sums["n_sentences"]
        self = super().__new__(cls, _compute_perplexity(log_prob, n_tokens))
        if not sums["n_oov"]:
            sums["log_prob_spelling"] = 0.0
        vars(self).update(sums)
        return self

    @classmethod
    def of_block(
        cls, block: Block, scores: Float64, offsets: Offsets, spelling: UnknownWords
    ) -> Self:
        """Return the perplexity of a block, given the scores of its tokens and ends (tokens + sentences,).

        ``offsets`` (sentences + 1,) are where sentences begin among the scores.
        """
        ends = np.zeros(len(scores), bool)
        ends[offsets[1:] - 1] = True  # the </s> of each
        n_words, n_characters, unknown = len(block.ids), block.n_characters, block.unknown
        if n_characters is not None:
            n_characters += n_words + int(np.count_nonzero(np.diff(block.offsets) == 0))

        def spell() -> tuple[int | None, float | None]:
            shares = None if unknown is None else float(spelling.log_shares(unknown).sum())
            return n_characters, shares

        words = scores[~ends]
        return cls(
            log_prob_known=float(words[~block.oov].sum()),
            log_prob_oov=float(words[block.oov].sum()),
            log_prob_eos=float(scores[ends].sum()),
            n_sentences=len(offsets) - 1,
            n_words=n_words,
            n_oov=int(block.oov.sum()),
            _spell=spell,
        )

    @cached_property
    def n_characters(self) -> int | None:
        """Number of characters of the words as written, and one for every space, line end and counted empty line.

        A space or line end follows every word. None if the text was a corpus with words outside its vocabulary, or with
        numbers whose digits were replaced. With ``digits``, a model does not predict the digits of a number: they count
        as characters, but cost no bits.
        """
        return self._spelled[0]

    @cached_property
    def log_prob_spelling(self) -> float | None:
        """Natural log-probability of the spellings of words outside the vocabulary, given that they are outside it.

        Only `bits_per_character` counts it. None if it is unknown.
        """
        return self._spelled[1]

    @cached_property
    def _spelled(self) -> tuple[int | None, float | None]:
        return (None, None) if self._spell is None else self._spell()

    @classmethod
    def pool(
        cls,
        parts: Iterable[Perplexity],
        context: Context | None = None,
        blank_lines: BlankLines | None = None,
    ) -> Self:
        """Combine the perplexities of several texts into one.

        The parts say how they were measured, unless ``context`` and ``blank_lines`` do. Raises ConfigurationError if
        they were measured in different ways, and for a number that does not say how.
        """
        listed = list(parts)
        for part in listed:
            if not isinstance(part, Perplexity):
                raise ConfigurationError(
                    f"{part!r:.40} is not a Perplexity: give those that model.perplexity(text) returned"
                )
        protocol: dict[str, Any] = {"context": context, "blank_lines": blank_lines}
        for name, value in protocol.items():
            ways = {getattr(part, name) for part in listed} or {getattr(cls, name)}
            if value is None and len(ways) > 1:
                raise ConfigurationError(
                    f"perplexities with different {name} cannot be pooled: measure all texts alike"
                )
            protocol[name] = value or ways.pop()
        names = "log_prob_known", "log_prob_oov", "log_prob_eos", "n_sentences", "n_words", "n_oov"
        sums: dict[str, Any] = {name: sum(getattr(part, name) for part in listed) for name in names}

        def add_up(name: str) -> Any:
            values = [getattr(part, name) for part in listed]
            return None if None in values else sum(values)

        def spell() -> tuple[int | None, float | None]:
            return add_up("n_characters"), add_up("log_prob_spelling")

        return cls(**sums, **protocol, _spell=spell)

    @property
    def value(self) -> float:
        """The number, as a plain float."""
        return float(self)

    @property
    def log_prob(self) -> float:
        """Natural log-probability of the whole text, ``</s>`` included."""
        return self.log_prob_known + self.log_prob_oov + self.log_prob_eos

    @property
    def n_tokens(self) -> int:
        """Number of predicted tokens: words and ends of sentences."""
        return self.n_words + self.n_sentences

    @property
    def without_oov(self) -> float:
        """The perplexity without words outside the vocabulary (KenLM: excluding OOVs)."""
        left = self.log_prob_known + self.log_prob_eos
        return _compute_perplexity(left, self.n_tokens - self.n_oov)

    @property
    def without_eos(self) -> float:
        """The perplexity of words only, without ``</s>``."""
        return _compute_perplexity(self.log_prob_known + self.log_prob_oov, self.n_words)

    @property
    def without_oov_and_eos(self) -> float:
        """The perplexity of words of the vocabulary only."""
        return _compute_perplexity(self.log_prob_known, self.n_words - self.n_oov)

    @property
    def ppl1(self) -> float:
        """SRILM's ``ppl1``: without words outside the vocabulary, and with ``</s>`` in the sum but not in the count."""
        left = self.log_prob_known + self.log_prob_eos
        return _compute_perplexity(left, self.n_words - self.n_oov)

    @property
    def oov_rate(self) -> float:
        """Share of the words that are outside the vocabulary; NaN for an empty text."""
        return self.n_oov / self.n_words if self.n_words else math.nan

    @property
    def bits_per_token(self) -> float:
        """Cross-entropy in bits: the base-2 logarithm of the perplexity."""
        return -self.log_prob / self.n_tokens / math.log(2) if self.n_tokens else math.nan

    @property
    def bits_per_character(self) -> float | None:
        """Bits of the whole text per character, counting a space or line end after every word.

        `log_prob` does not cover the spelling of a word outside the vocabulary, so the bits of the spelling are added
        (see `tacenda_lm.unknown_words`). A written ``<unk>`` counts as five characters, without further bits. None if
        the characters or the bits are not known.
        """
        if self.n_characters is None or self.log_prob_spelling is None:
            return None
        bits = -(self.log_prob + self.log_prob_spelling) / math.log(2)
        return bits / self.n_characters if self.n_characters else math.nan

    @property
    def protocol(self) -> str:
        """A description of how the number was measured."""
        protocol = _PROTOCOL.format(blank=_BLANK_LINES[self.blank_lines])
        return f"{protocol}; {_CONTEXTS[self.context]}"

    def to_dict(self) -> dict[str, Any]:
        """Return measures as JSON values, for a model card; NaN and infinity become None.

        `oov_rate`, `bits_per_token` and the three parts of `log_prob` are left out; they follow from the others.
        """
        perplexities = ("value", "without_oov", "without_eos", "without_oov_and_eos", "ppl1")
        sums = ("bits_per_character", "log_prob", "log_prob_spelling")
        counts = ("n_tokens", "n_sentences", "n_words", "n_oov", "n_characters")
        numbers = {name: getattr(self, name) for name in (*perplexities, *sums, *counts)}
        plain = {k: None if v is None or not math.isfinite(v) else v for k, v in numbers.items()}
        return {**plain, "context": self.context, "protocol": self.protocol}

    def __repr__(self) -> str:
        return (
            f"Perplexity({self.value:.4f}, without_oov={self.without_oov:.4f}, "
            f"n_tokens={self.n_tokens}, n_oov={self.n_oov})"
        )

    def __reduce__(self) -> tuple[Callable[[], Self], tuple[()]]:
        spelled = {name: getattr(self, name) for name in ("n_characters", "log_prob_spelling")}
        sums = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return partial(type(self), **sums | spelled), ()


_ATTRIBUTES = {*Perplexity.__annotations__, "n_characters", "log_prob_spelling"}


def warn_of_misfit(model: Any, found: Perplexity, split: object) -> None:
    """Warn once of a perplexity worse than any guess, and once of far more unknown words than in the training text.

    ``split`` is the tokenizer that split the text, None for a text that was given as tokens.
    """
    # not of all words, because an ARPA file may give <unk> any probability
    is_plausible = found.without_oov <= _IMPLAUSIBLE_PERPLEXITY  # which NaN is not
    if found.n_tokens > found.n_oov and not is_plausible:
        warn(
            f"the perplexity of the known words is {found.without_oov:.3g}, worse than any guess: the parameters "
            f"of this {type(model).__name__} are damaged, or its fit diverged; fit it again",
            once=(model, "perplexity"),
        )
    if found.n_words < _MIN_WORDS_TO_WARN:
        return
    expected = model.fitted_on.get("n_unknown", 0) / (model.fitted_on.get("n_tokens") or 1)
    tokenizers = find_recorded_tokenizers(model) - {ASCII_WHITESPACE}
    recorded = {name for name in tokenizers if not is_own(name)}
    is_split_alike = split is None or not recorded or split in recorded
    if found.oov_rate > expected + (_MORE_UNKNOWN if is_split_alike else _MORE_UNKNOWN_SPLIT):
        remedy = "give a text like the training text, split alike"
        if not is_split_alike:
            remedy = f"give tokenizer={min(recorded)!r}, which split the training text"
        warn(
            f"{found.n_oov:,} of {found.n_words:,} words are outside the vocabulary of the model, and the perplexity "
            f"says how probable any unknown word is there: {remedy}",
            once=(model, "unknown words"),
        )


def _compute_perplexity(log_prob: float, n: int) -> float:
    """Return exp(-log_prob / n), NaN for n = 0 and infinity for a number above all floats."""
    if not n:
        return math.nan
    try:
        return math.exp(-log_prob / n)
    except OverflowError:
        return math.inf
