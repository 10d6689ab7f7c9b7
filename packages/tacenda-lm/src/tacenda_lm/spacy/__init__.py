"""Language models in spaCy: the component ``lm_scorer``, and `render`, which draws what it found.

The entry points name ``factories`` and ``scorers``. These import spaCy and the standard library only, because
an entry point that cannot be imported breaks ``spacy.blank("en")`` for a whole environment. Everything else is
imported when a component is built or a picture is drawn.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacenda_lm.spacy.heat_map import render

__all__ = ["render"]


def __getattr__(name: str) -> Any:
    if name == "render":
        from tacenda_lm.spacy.heat_map import render

        return render
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
