"""What every spaCy component of a fitted model needs from the host; the extra ``tacenda[spacy]``.

For adapters alone: nothing else of the core imports this package, and it knows no model. A component
inherits `tacenda.spacy.component.ModelComponent`; its own modules say what the model is and what is
written into a ``Doc``.
"""
