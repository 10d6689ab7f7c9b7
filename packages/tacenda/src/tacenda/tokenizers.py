"""Tokenizers by name, from one line of text to a list of tokens, and the tokenizers that a model was fitted with."""

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from tacenda.errors import ConfigurationError, CorpusError, importing

Tokenizer = Callable[[str], list[str]]

#: The tokenizer that splits as KenLM and its module do.
ASCII_WHITESPACE: Final = "ascii_whitespace"
#: The tokenizers that never divide what is between two spaces.
SPLIT_AT_SPACES: Final = ("whitespace", ASCII_WHITESPACE)
_BETWEEN_ASCII_WHITESPACE: Final = re.compile(r"[^ \t\n\r\v\f]+")

#: The end of the name of a tokenizer that a pipeline had instead of that of its language.
CUSTOM: Final = " (custom)"
_CALLABLE: Final = "callable"
#: The distributions that split text for spaCy's tokenizers of these languages.
_SEGMENTERS: Final = {
    "ja": ("sudachipy", "sudachidict_core"),
    "ko": ("natto-py",),
    "th": ("pythainlp",),
    "vi": ("pyvi",),
    "zh": ("jieba",),
}


def get_tokenizer(tokenizer: str | Tokenizer) -> Tokenizer:
    """Return the tokenizer of a name, or the callable itself.

    ``"whitespace"``: ``str.split``, which splits at any Unicode whitespace. ``"ascii_whitespace"``: as KenLM splits: a
    no-break space (U+00A0) or an ideographic one (U+3000) belongs to a word. ``"words"``: one regular expression close
    to UD English, see `split_words`. ``"spacy:LANG"``: the tokenizer of spaCy's language, whitespace tokens dropped;
    Chinese is segmented by jieba. Any callable from a line to a list of tokens passes through.

    Raises CorpusError for an unknown name, an unknown language, the name of a pipeline's custom tokenizer, or if spaCy
    is missing.
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
    if is_own(str(tokenizer)):
        raise CorpusError(
            f"the tokenizer {tokenizer!r} is a function or a pipeline's own, which is not saved with a model; "
            "pass it as a function from a line to a list of tokens"
        )
    if family == "spacy" and language:
        return _spacy_words_of(language)
    raise CorpusError(
        f'there is no tokenizer {tokenizer!r}; use "whitespace", "ascii_whitespace", "words", "spacy:en" '
        "or any callable from a line to a list of tokens"
    )


def record_tokenizer(tokenizer: str | Tokenizer) -> str:
    """Return the name of a tokenizer for `tacenda.Corpus.origin`; a callable may have a ``name`` such as "spacy:en"."""
    name = tokenizer if isinstance(tokenizer, str) else str(getattr(tokenizer, "name", ""))
    return name if isinstance(tokenizer, str) or name.startswith("spacy:") else _CALLABLE


def is_own(name: str) -> bool:
    """Return whether a recorded name is that of a user's own tokenizer, which `get_tokenizer` cannot make again."""
    return name == _CALLABLE or name.endswith(CUSTOM)


def choose_tokenizer(model: Any, tokenizer: str | Tokenizer | None) -> str | Tokenizer:
    """Return the given tokenizer, or for None that of the text that a model, or its components, were fitted to.

    If that is unknown, return the `string_tokenizer` of the model. Raises ConfigurationError if it was a function,
    which is not saved with a model, or if components had different ones.
    """
    if tokenizer is not None:
        return tokenizer
    names = find_fitted_tokenizers(model)
    if any(map(is_own, names)):
        raise ConfigurationError(
            "the model was fitted with your own tokenizer, which is not saved with it: give it, or one that splits "
            'text in the same way, such as tokenizer="words"'
        )
    if len(names) > 1:
        raise ConfigurationError(
            f"the parts of the model were fitted with different tokenizers, {sorted(names)}: give one, such as "
            f"tokenizer={min(names)!r}"
        )
    return names.pop()


def find_fitted_tokenizers(model: Any) -> set[str]:
    """Return the tokenizers of the texts that a model, or its components, were fitted to.

    If none is known, return its `string_tokenizer`, or ``whitespace`` for a model of a plugin that has none.
    """
    return find_recorded_tokenizers(model) or {getattr(model, "string_tokenizer", "whitespace")}


def find_recorded_tokenizers(model: Any) -> set[str]:
    """Return the tokenizer recorded in ``fitted_on`` of a model, or else those of its components."""
    if recorded := model.fitted_on.get("tokenizer"):
        return {str(recorded)}
    return set().union(*map(find_recorded_tokenizers, model.nested().values()))


def fingerprint_tokenizer(tokenizer: str | Tokenizer) -> str | None:
    """Return a string that changes with the rules of a named tokenizer; None for a callable, whose rules are unknown.

    It has the expressions of ``"words"``, and the versions of spaCy and of the language's segmenter. Raises CorpusError
    as `get_tokenizer`.
    """
    if callable(tokenizer):
        return None
    get_tokenizer(tokenizer)
    if tokenizer == "words":
        rules = "\0".join(each.pattern for each in (_MAY_NEED_SEPARATION, _SEPARATE, _TOKEN))
        return f"words {hashlib.sha256(rules.encode()).hexdigest()[:16]}"
    if tokenizer.startswith("spacy:"):
        from tacenda.plugins import version_of

        segmenters = _SEGMENTERS.get(tokenizer.removeprefix("spacy:"), ())
        versions = [f"{name} {version_of(name)}" for name in segmenters]
        return ", ".join([f"{tokenizer} {version_of('spacy')}", *versions])
    return tokenizer


@lru_cache(maxsize=8)
def _spacy_words_of(language: str) -> Tokenizer:
    return spacy_words(make_spacy_tokenizer(language))


def make_spacy_tokenizer(language: str) -> Any:
    """Make the tokenizer of a blank pipeline of a language, as `spacy_config` configures it.

    Raises CorpusError if spaCy, the language, or a package that the language needs is missing.
    """
    need = f'the tokenizer "spacy:{language}" needs spaCy'
    with importing(need, "tacenda[spacy]", error=CorpusError):
        import spacy
    try:
        return spacy.blank(language, config=spacy_config(language)).tokenizer
    except Exception as error:  # spaCy's, or of a package that the language needs
        if getattr(error.__cause__, "name", "") == f"spacy.lang.{language}":
            raise CorpusError(
                f'spaCy has no language "{language}"; name one of its codes, such as "spacy:en"'
            ) from error
        cause = " ".join(str(error).split())
        raise CorpusError(f'the tokenizer "spacy:{language}" cannot be made: {cause}') from error


def spacy_config(language: str) -> dict[str, Any]:
    """Return the configuration with which a blank pipeline of a language splits text into words.

    spaCy's default for Chinese makes a token of each character.
    """
    return {"nlp": {"tokenizer": {"segmenter": "jieba"}}} if language == "zh" else {}


def spacy_words(tokenizer: Any) -> Tokenizer:
    """Return a function from a line to the tokens that a tokenizer of spaCy makes of it, without whitespace tokens.

    spaCy's rule-based tokenizer splits each piece between whitespace independently, and most text repeats its pieces,
    so their tokens are cached. They are not cached if a special case contains whitespace, nor for other tokenizers,
    whose tokens may depend on the pieces around them.
    """
    from spacy.tokenizer import Tokenizer as RuleTokenizer

    def tokenize(line: str) -> list[str]:
        return [token.text for token in tokenizer(line) if not token.is_space]

    cases = [case for case in getattr(tokenizer, "rules", ()) if not case.isspace()]
    if type(tokenizer) is RuleTokenizer and all(case.split() == [case] for case in cases):
        return _PieceTokens(tokenize).tokenize
    return tokenize


# The expressions of the tokenizer "words". The alternatives that match most often come first. All repetitions that
# could be tried again from the next character are bounded or possessive, so that time is linear in the length of any
# line.
_SEPARATE: Final = re.compile(
    r"""
    (?<=\w) (?=(?: n['’]t | ['’](?:s|re|ve|ll|d|m) )\b(?!['’](?!ve\b)\w))   # do|n't, Kim|'s
  | (?<=\bcan)(?=not\b) | (?<=\b[gw][oa]n)(?=na\b) | (?<=\bgot)(?=ta\b)
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Letters of every piece that _SEPARATE can split: a quick test that most pieces fail.
_MAY_NEED_SEPARATION: Final = re.compile("['’]|nnot|nna|otta", re.IGNORECASE)

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

_MAX_CACHED_PIECES: Final = 1 << 17
_MAX_CACHED_LENGTH: Final = 64  # characters of a piece


def split_words(line: str) -> list[str]:
    """Split a line of English text into tokens, close to the tokens of UD English EWT: the tokenizer ``"words"``.

    Text is split at whitespace, and each piece by one regular expression. Clitics are separated (``do n't``,
    ``Kim 's``, ``can not``, in capitals too), and hyphenated words are split at the hyphen except after prefixes
    (``long - term`` but ``co-author``); addresses, numbers, dates, abbreviations and initials stay whole. All
    characters but whitespace are kept, in order.
    """
    return _WORDS.tokenize(line)


def _split_piece(piece: str) -> list[str]:
    if _MAY_NEED_SEPARATION.search(piece):
        piece = _SEPARATE.sub(" ", piece)
    return _TOKEN.findall(piece)


class _PieceTokens(dict[str, list[str]]):
    """A cache from pieces of text without whitespace to the tokens that ``split`` makes of them, emptied when full."""

    def __init__(self, split: Tokenizer) -> None:
        self._split = split

    def tokenize(self, line: str) -> list[str]:
        """Return the tokens of a line."""
        return list(chain.from_iterable(map(self.__getitem__, line.split())))

    def __missing__(self, piece: str) -> list[str]:
        tokens = self._split(piece)
        if len(piece) <= _MAX_CACHED_LENGTH:
            if len(self) >= _MAX_CACHED_PIECES:
                self.clear()
            self[piece] = tokens
        return tokens


_WORDS: Final = _PieceTokens(_split_piece)
