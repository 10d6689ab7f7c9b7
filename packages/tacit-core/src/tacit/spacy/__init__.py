"""What every spaCy component of a fitted model needs from the host; the extra ``tacit-core[spacy]``.

For adapters alone: nothing else of the core imports this package, and it knows no model. A component
inherits `tacit.spacy.component.ModelComponent`; its own modules say what the model is and what is
written into a ``Doc``.
"""
