"""Language models in spaCy: the component ``lm_scorer``, `render`, which draws its scores, and `register`.

`register` defines the attributes of tokens, spans and documents, as the component does when it is made. A process that
reads stored documents, and has no pipeline with the component, calls it first.

The entry points name ``factories`` and ``scorers``. These import spaCy and the standard library only, because
an entry point that cannot be imported breaks ``spacy.blank("en")`` for a whole environment. Everything else is
imported when a component is built, or one of these functions is asked for.
"""

from typing import TYPE_CHECKING

from tacenda.lazy import attach

if TYPE_CHECKING:
    from tacenda_lm.spacy.attributes import register
    from tacenda_lm.spacy.heat_map import render

__all__ = ["register", "render"]


__getattr__, __dir__ = attach(__name__, {".attributes": "register", ".heat_map": "render"})
