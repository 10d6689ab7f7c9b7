"""The ``"words"`` tokenizer: English text to tokens, close to UD English EWT.

Text is cut at whitespace, and each piece by one regular expression; pieces seen lately are remembered,
as most text repeats them. Clitics are cut off (``do n't``, ``Kim 's``, ``can not``), hyphenated words
at the hyphen except behind prefixes (``long - term`` but ``co-author``); addresses, numbers, dates,
abbreviations and initials stay whole. Alternatives stand in order of how often they are needed. All
repetitions that could be tried again from the next character are bounded or possessive, so that time
is linear in the length of a line whatever it holds.
"""

import re
from itertools import chain
from typing import Final

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

VERSION: Final = f"{_SEPARATE.pattern}{_TOKEN.pattern}"
"""What the tokens of a text depend on; a corpus tokenized by another version is not reused."""


def split_words(line: str) -> list[str]:
    """Tokens of a line of English text; what is not whitespace is kept, in order."""
    return list(chain.from_iterable(map(_PIECES.__getitem__, line.split())))


class _Pieces(dict[str, list[str]]):
    """Tokens of pieces of text without whitespace; forgets them all when it holds too many."""

    def __missing__(self, piece: str) -> list[str]:
        text = piece
        if any(hint in piece for hint in _MAY_NEED_SEPARATION):
            text = _SEPARATE.sub(" ", piece)
        tokens = _TOKEN.findall(text)
        if len(piece) <= _REMEMBERED_LENGTH:
            if len(self) >= _REMEMBERED_PIECES:
                self.clear()
            self[piece] = tokens
        return tokens


_PIECES: Final = _Pieces()
