"""Tokenizers by name: from one line of text to a list of tokens."""

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from tacenda.errors import CorpusError

Tokenizer = Callable[[str], list[str]]

#: The tokenizer that splits as KenLM and its module do.
ASCII_WHITESPACE: Final = "ascii_whitespace"
_BETWEEN_ASCII_WHITESPACE: Final = re.compile(r"[^ \t\n\r\v\f]+")


def get_tokenizer(tokenizer: str | Tokenizer) -> Tokenizer:
    """Return the tokenizer of a name, or the callable itself.

    ``"whitespace"``: ``str.split``, which splits at any Unicode whitespace.
    ``"ascii_whitespace"``: as KenLM splits: a no-break space (U+00A0) or an ideographic one (U+3000) belongs to a word.
    ``"words"``: one regular expression close to UD English, see `split_words`.
    ``"spacy:LANG"``: the tokenizer of spaCy's language, whitespace tokens dropped; Chinese is segmented by jieba.
    Any callable from a line to a list of tokens passes through.

    Raises CorpusError for an unknown name, an unknown language, or where spaCy is missing.
    """
    if callable(tokenizer):
        return tokenizer
    if tokenizer == "whitespace":
        return str.split
    if tokenizer == ASCII_WHITESPACE:
        return _BETWEEN_ASCII_WHITESPACE.findall
    if tokenizer == "words":
        return split_words
    family, _, language = str(tokenizer).partition(":")
    if family == "spacy" and language:
        return _spacy_tokenizer(language)
    raise CorpusError(
        f'there is no tokenizer {tokenizer!r}; use "whitespace", "ascii_whitespace", "words", "spacy:en" '
        "or any callable from a line to a list of tokens"
    )


def tokenizer_version(tokenizer: str | Tokenizer) -> str | None:
    """A string that changes when the tokens could; None for a callable, which has no version."""
    if callable(tokenizer):
        return None
    get_tokenizer(tokenizer)
    if tokenizer == "words":
        return f"words {hashlib.sha256((_SEPARATE.pattern + _TOKEN.pattern).encode()).hexdigest()[:16]}"
    if tokenizer.startswith("spacy:"):
        import spacy

        return f"{tokenizer} {spacy.__version__}"
    return tokenizer


@lru_cache(maxsize=8)
def _spacy_tokenizer(language: str) -> Tokenizer:
    try:
        import spacy
    except ImportError as error:
        raise CorpusError(
            f'the tokenizer "spacy:{language}" needs spaCy, which cannot be imported ({error}); '
            'install it with pip install "tacenda[spacy]"'
        ) from error
    try:
        tokenizer = spacy.blank(language, config=spacy_config(language)).tokenizer
    except Exception as error:  # spaCy's, or of a package that the language needs
        if getattr(error.__cause__, "name", "") == f"spacy.lang.{language}":
            raise CorpusError(
                f'spaCy has no language "{language}"; name one of its codes, such as "spacy:en"'
            ) from error
        cause = " ".join(str(error).split())
        raise CorpusError(f'the tokenizer "spacy:{language}" cannot be made: {cause}') from error
    return spacy_words(tokenizer)


def spacy_config(language: str) -> dict[str, Any]:
    """Return what a blank pipeline of a language needs in its configuration so that its tokens are words.

    spaCy's default for Chinese makes a token of each character.
    """
    return {"nlp": {"tokenizer": {"segmenter": "jieba"}}} if language == "zh" else {}


def spacy_words(tokenizer: Any) -> Tokenizer:
    """Return a function from a line to the tokens that a tokenizer of spaCy makes of it, without whitespace tokens.

    spaCy's rule-based tokenizer splits each piece between whitespace independently, so pieces seen lately are
    remembered: most text repeats them. Not so where a special case contains whitespace, and in other tokenizers.
    """
    from spacy.tokenizer import Tokenizer as RuleTokenizer

    def tokenize(line: str) -> list[str]:
        return [token.text for token in tokenizer(line) if not token.is_space]

    cases = [case for case in getattr(tokenizer, "rules", ()) if not case.isspace()]
    if type(tokenizer) is RuleTokenizer and all(case.split() == [case] for case in cases):
        return _Pieces(tokenize).of
    return tokenize


# The expressions of the tokenizer "words". Alternatives stand in order of how often they are needed. All repetitions
# that could be tried again from the next character are bounded or possessive, so that time is linear in the length of
# a line whatever it holds.
_SEPARATE: Final = re.compile(
    r"""
    (?<=\w) (?=(?: n['’]t | ['’](?:s|re|ve|ll|d|m) )\b(?!['’](?!ve\b)\w))   # do|n't, Kim|'s
  | (?<=\bcan)(?=not\b) | (?<=\b[gw][oa]n)(?=na\b) | (?<=\bgot)(?=ta\b)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_MAY_NEED_SEPARATION: Final = ("'", "’", "nnot", "nna", "otta")

_URL_END: Final = r"[^\s<>\"'’,;:!?.)\]}]"
_FILE_ENDINGS: Final = "com|org|net|edu|gov|doc|xls|pdf|ppt|htm|txt|url|zip|COM|DOC|XLS|PDF"
_THREE_LETTERS: Final = "Mrs|Gen|Gov|Sen|Rep|Rev|Inc|Ltd|Oct|Nov|Dec|Jan|Feb|Aug|Col|Sgt|Maj|Ave"
_FOUR_LETTERS: Final = "Prof|Corp|Sept|Capt|Dept"
_TOKEN: Final = re.compile(
    rf"""
    [^\W\d_]++(?=[\s,;)!?]|\Z)                        # a word with nothing glued to it
  | [,"(\[]                                           # what never begins anything longer
  | (?=[^\W\d_])(?:                                   # -- beginning with a letter --
        [^\W\d_]{{3,}}+(?=\.(?:\s|\Z))                # the last word of a sentence
        (?<!\b(?:etc|{_THREE_LETTERS}))(?<!\b(?:{_FOUR_LETTERS}))
      | n['’]t\b | N['’]T\b
      | (?:https?://|ftp://|www\.)[^\s<>"]*{_URL_END}
      | (?:Mr|Ms|Dr|St|Jr|Sr|Lt|Co|vs|Ft|Mt|{_THREE_LETTERS}|{_FOUR_LETTERS})\.(?=,|\s|\Z)
      | etc\.(?=[,;)])
      | [A-HJ-Z]\.(?=\Z)                              # an initial
      | [^\W\d_](?:\.[^\W\d_])+\b\.?                  # U.S., e.g., p.m
      | (?:[Ee]|[Cc]o|[Pp]re|[Nn]on|[Pp]ost|[Pp]ro|[Ee]x|[Mm]ulti|[Aa]nti)-\w++
      | [^\W\d_]++(?:['’][^\W\d_]{{2,}}+ | (?=-)(?!-[\w.-]{{0,63}}[@.]\w))   # Sha'lan; long|-term
      | [A-Z]++&[A-Z]++                               # AT&T
    )
  | (?=[\w.+-])(?:                                    # -- addresses and file names --
        [\w.+-]{{1,64}}+@[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{0,9}}
      | [\w-]{{1,63}}+(?:\.[\w-]{{1,63}}+){{1,9}}(?<=\.(?:{_FILE_ENDINGS}))(?:/[^\s<>"]*{_URL_END})?
    )
  | (?=[\d+])(?:                                      # -- beginning with a digit --
        (?:\d-)?\d{{3}}-\d{{3}}-\d{{4}}\b | \d{{3}}-\d{{4}}\b                # telephone numbers
      | \d{{1,4}}/\d{{1,2}}(?:/\d{{1,4}})?\b                                 # dates
      | \+?\d+(?:[.,:]\d+)*+(?:st|nd|rd|th|s)?+                              # 1,000.5 10:30 1990s
    )
  | \w++
  | (?<!\w)['’](?:[smdSMD]|[rv]e|ll|RE|VE|LL)\b(?!['’](?!ve\b))             # a clitic
  | [:;=][-^']?[()DPp](?!\w)                                                 # :-)
  | \.?[!?]{{2,}} | \.[!?] | \.{{2,}} | -{{2,}} | ={{2,}} | \*{{2,}} | <{{2,}} | >{{2,}}
  | '{{2}} | ’{{2}} | ‘{{2}} | `{{2}} | \${{2,}}
  | \S
    """,
    re.VERBOSE,
)

_REMEMBERED_PIECES: Final = 1 << 17
_REMEMBERED_LENGTH: Final = 64


def split_words(line: str) -> list[str]:
    """Split a line of English text into tokens, close to the tokens of UD English EWT: the tokenizer ``"words"``.

    Text is cut at whitespace, and each piece by one regular expression; pieces seen lately are remembered, as most
    text repeats them. Clitics are cut off (``do n't``, ``Kim 's``, ``can not``), hyphenated words at the hyphen
    except behind prefixes (``long - term`` but ``co-author``); addresses, numbers, dates, abbreviations and initials
    stay whole. What is not whitespace is kept, in order.
    """
    return _WORDS.of(line)


def _split_piece(piece: str) -> list[str]:
    if any(hint in piece for hint in _MAY_NEED_SEPARATION):
        piece = _SEPARATE.sub(" ", piece)
    return _TOKEN.findall(piece)


class _Pieces(dict[str, list[str]]):
    """Tokens of pieces of text without whitespace, made by ``split``; forgets them all when it holds too many."""

    def __init__(self, split: Tokenizer) -> None:
        self._split = split

    def of(self, line: str) -> list[str]:
        """Return the tokens of a line."""
        return list(chain.from_iterable(map(self.__getitem__, line.split())))

    def __missing__(self, piece: str) -> list[str]:
        tokens = self._split(piece)
        if len(piece) <= _REMEMBERED_LENGTH:
            if len(self) >= _REMEMBERED_PIECES:
                self.clear()
            self[piece] = tokens
        return tokens


_WORDS: Final = _Pieces(_split_piece)
