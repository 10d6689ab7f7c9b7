"""Language models in spaCy: the component ``lm_scorer``, `render`, which draws its scores, and `register`.

`register` defines the attributes of tokens, spans and documents, as the component does when it is made. A process that
reads stored documents, and has no pipeline with the component, calls it first.

The entry points name ``factories`` and ``scorers``. These import spaCy and the standard library only, because
an entry point that cannot be imported breaks ``spacy.blank("en")`` for a whole environment. Everything else is
imported when a component is built, or one of these functions is asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacenda_lm.spacy.heat_map import render
    from tacenda_lm.spacy.scores import register

__all__ = ["register", "render"]


def __getattr__(name: str) -> Any:
    if name == "render":
        from tacenda_lm.spacy.heat_map import render

        return render
    if name == "register":
        from tacenda_lm.spacy.scores import register

        return register
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
