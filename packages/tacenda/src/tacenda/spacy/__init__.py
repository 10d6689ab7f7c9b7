"""Shared parts of the spaCy components; needs the extra ``tacenda[spacy]``.

Nothing else in the core imports this package, and it knows no model. A component inherits
`tacenda.spacy.component.ModelComponent`; its own modules say which models it takes and what they write into a ``Doc``.
`tacenda.spacy.documents` reads tokens fast, `tacenda.spacy.sources` loads models and reads raw text.
"""
