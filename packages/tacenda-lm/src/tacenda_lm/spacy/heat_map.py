"""`render`: a heat map of surprisal. The warmer the background of a token, the more surprising it was.

The picture is HTML without scripts, readable on light and dark screens; every character of the text is escaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from html import escape
from importlib import import_module
from numbers import Real

from spacy.tokens import Doc
from spacy.util import is_in_jupyter

from tacenda.errors import ConfigurationError
from tacenda.vocabulary import UNKNOWN
from tacenda_lm.spacy.scores import DocScores

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]")
_LN2 = math.log(2)
_N_MOST_SURPRISING = 5  # words that are listed

Color = tuple[int, int, int]

# Ink and paper are both set, so that the picture is readable whatever surrounds it.
#: Ink and paper on a light and on a dark screen: red, green and blue, 0 to 255.
LIGHT: tuple[Color, Color] = ((24, 24, 27), (255, 255, 255))
DARK: tuple[Color, Color] = ((244, 244, 245), (24, 24, 27))
#: The color of the warmest token, and its opacity over the paper.
HEAT: Color = (214, 84, 20)
STRENGTH = 0.75


def _format_rgb(color: Color) -> str:
    return f"rgb({color[0]}, {color[1]}, {color[2]})"


def _format_theme(ink: Color, paper: Color) -> str:
    return f".tacenda-surprisal {{ color: {_format_rgb(ink)}; background: {_format_rgb(paper)}; }}"


_OVER = f"{HEAT[0]}, {HEAT[1]}, {HEAT[2]}"

_STYLE = f"""
{_format_theme(*LIGHT)}
.tacenda-surprisal {{ font: 1.05rem/1.9 Georgia, serif; padding: 1.2em 1.5em; max-width: 46em; margin: auto; }}
.tacenda-surprisal h1 {{ font: 600 1.3rem/1.4 system-ui, sans-serif; }}
.tacenda-surprisal p {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
.tacenda-surprisal p span {{
  background: rgba({_OVER}, calc(var(--heat) * {STRENGTH})); border-radius: 3px; padding: 0.12em 0;
}}
.tacenda-surprisal .oov {{ text-decoration: underline dotted; text-underline-offset: 0.2em; }}
.tacenda-surprisal .end {{ font-size: 0.7em; margin-left: 0.15em; }}
.tacenda-surprisal .legend, .tacenda-surprisal .facts {{ font: 0.8rem/1.6 system-ui, sans-serif; }}
.tacenda-surprisal .facts {{ white-space: normal; border-top: 1px solid rgba(128, 128, 128, 0.5); padding-top: 0.5em; }}
.tacenda-surprisal .scale {{
  height: 0.9em; border-radius: 3px; max-width: 24em;
  background: linear-gradient(to right, rgba({_OVER}, 0), rgba({_OVER}, {STRENGTH}));
  border: 1px solid rgba(128, 128, 128, 0.5);
}}
.tacenda-surprisal .marks {{ display: flex; justify-content: space-between; max-width: 24em; }}
@media (prefers-color-scheme: dark) {{ {_format_theme(*DARK)} }}
@media print {{ .tacenda-surprisal span {{ print-color-adjust: exact; -webkit-print-color-adjust: exact; }} }}
"""

_HEAD = f"""<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<style>
body {{ margin: 0; background: {_format_rgb(LIGHT[1])}; }}
@media (prefers-color-scheme: dark) {{ body {{ background: {_format_rgb(DARK[1])}; }} }}
</style>
"""


def render(
    docs: Doc | Iterable[Doc],
    *,
    prefix: str = "",
    max_bits: float = 16.0,
    title: str | None = None,
    page: bool = False,
    jupyter: bool | None = None,
) -> str | None:
    """Draw scored documents as an HTML heat map.

    Parameters
    ----------
    docs
        A document that ``lm_scorer`` has scored, or several.
    prefix
        The prefix of the component.
    max_bits
        The surprisal, in bits, at which the color is warmest. To compare pictures, give all of them the same.
    title
        A heading; text, not HTML.
    page
        Return a whole page, for a file, instead of a part of one.
    jupyter
        Show the picture in the notebook and return None. By default this is done in a notebook only.

    Returns
    -------
    HTML, or None if it was shown.

    Raises
    ------
    NotFittedError
        A document has no scores.
    ConfigurationError
        ``max_bits`` is no positive, finite number, or something is not a document, such as a string or a span.

    Examples
    --------
    >>> Path("surprisal.html").write_text(render(nlp("Some text."), page=True), encoding="utf8")
    """
    if not isinstance(max_bits, Real) or not 0 < max_bits < math.inf:
        raise ConfigurationError(f"max_bits must be a number above 0 and finite, not {max_bits!r}")
    given = docs if isinstance(docs, Iterable) and not isinstance(docs, Doc) else [docs]
    heading = "" if title is None else f"<h1>{_escape(title)}</h1>\n"
    drawings = "\n".join(_draw_document(doc, prefix, max_bits) for doc in given)
    html = (
        f'<div class="tacenda-surprisal">\n<style>{_STYLE}</style>\n{heading}{_draw_legend(max_bits)}\n'
        f"{drawings}\n</div>"
    )
    if page:
        head = f"{_HEAD}<title>{_escape(title or 'Surprisal')}</title>\n</head>\n"
        html = f"{head}<body>\n{html}\n</body>\n</html>\n"
    if jupyter or (jupyter is None and is_in_jupyter()):
        notebook = import_module("IPython.display")
        notebook.display(notebook.HTML(html))
        return None
    return html


def _draw_document(doc: Doc, prefix: str, max_bits: float) -> str:
    """Return the text of a document with colored tokens, and its metrics. Raises as `DocScores.of`."""
    scores = DocScores.of(doc, prefix)
    ends = dict(zip((scores.segments[1:] - 1).tolist(), scores.eos.tolist(), strict=False))
    shown: list[str] = []
    most_bits: dict[str, float] = {}  # of each word at the place where it is most surprising

    def add(kind: str, bits: float, title: str, text: str) -> None:
        """Add a colored piece of text, with a title that is shown while the pointer is on it."""
        name = f' class="{kind}"' if kind else ""
        heat = min(max(bits / max_bits, 0.0), 1.0)
        shown.append(
            f'<span{name} style="--heat:{heat:.3f}" title="{_escape(title)}">{text}</span>'
        )

    for token in doc:
        words = scores.find_words(token.idx, token.idx + len(token))
        if words.start == words.stop:  # whitespace
            shown += [_escape(token.text), token.whitespace_]
            continue
        log_prob = scores.sum_words(words)
        bits = 0.0 - log_prob / _LN2  # not -0.0
        most_bits[token.text] = max(bits, most_bits.get(token.text, 0.0))
        about = f"{token.text}: {bits:.2f} bits, log p {log_prob:.3f}{_describe(words, scores)}"
        add("oov" if scores.oov[words].any() else "", bits, about, _escape(token.text))
        for log_prob in (ends[word] for word in range(words.start, words.stop) if word in ends):
            bits = -log_prob / _LN2
            add("end", bits, f"end of sentence: {bits:.2f} bits, log p {log_prob:.3f}", "¶")
        shown.append(token.whitespace_)
    facts = _list_facts(scores)
    top = sorted((word for word in most_bits if most_bits[word] > 0), key=lambda w: -most_bits[w])
    if top:
        listed = (f"{_escape(w)} ({most_bits[w]:.1f})" for w in top[:_N_MOST_SURPRISING])
        facts += f"<br>most surprising: {', '.join(listed)}"
    return f"<p>{''.join(shown)}</p>\n<p class='facts'>{facts}</p>"


def _describe(words: slice, scores: DocScores) -> str:
    """Return what else is known about the words of a token, as plain text that continues a sentence."""
    parts = []
    if scores.oov[words].any():
        parts.append("outside the vocabulary")
        if scores.share is None:
            parts.append("the bits of all such words together")
    if words.stop - words.start == 1:  # a merged token has no rank
        if scores.rank is not None:
            parts.append(f"{scores.rank[words.start]:,} more probable words")
        if scores.entropy is not None:
            parts.append(f"{scores.entropy[words.start]:.4g} bits of entropy")
    return "".join(f", {part}" for part in parts)


def _draw_legend(max_bits: float) -> str:
    """Return the scale of colors, with its marks in bits."""
    marks = "".join(f"<span>{max_bits * part / 4:g}</span>" for part in range(4))
    return (
        f'<div class="legend"><div>surprisal in bits</div><div class="scale"></div>'
        f'<div class="marks">{marks}<span>{max_bits:g} and more</span></div>'
        f'<div><span class="oov">underlined</span>: outside the vocabulary; '
        f"¶: end of sentence; point at a token for its figures</div></div>"
    )


def _list_facts(scores: DocScores) -> str:
    """Return the metrics of a document."""
    whole = scores.measure()
    if not whole.n_tokens:
        return "no words"
    facts = [f"{whole.n_words:,} words, {whole.n_oov:,} outside the vocabulary"]
    if whole.n_oov:
        facts.append(f"perplexity {whole.value:,.1f}, these counted as {_escape(UNKNOWN)}")
        if not math.isnan(whole.without_oov):  # there are other tokens
            facts.append(f"{whole.without_oov:,.1f} without them")
    else:
        facts.append(f"perplexity {whole.value:,.1f}")
        facts.append(f"{whole.bits_per_token:.2f} bits per token")
    if whole.bits_per_character is not None:
        facts.append(f"{whole.bits_per_character:.2f} bits per character")
    if whole.n_oov and scores.share is None:
        facts.append(
            "words outside the vocabulary are too cold: each has the probability of all such words together"
        )
    return " · ".join(facts)


def _escape(text: str) -> str:
    """Escape text for an element or a quoted attribute; control characters but line ends become visible."""
    unix = text.replace("\r\n", "\n").replace("\r", "\n")
    return escape(_CONTROL.sub("\ufffd", unix), quote=True)
