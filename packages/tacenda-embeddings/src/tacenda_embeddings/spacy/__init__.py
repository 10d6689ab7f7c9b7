"""The spaCy side of the embeddings: pipeline components and model architectures.

``factories`` and ``architectures`` are what the entry points name; they import spaCy, thinc and the
standard library only, because an entry point that cannot be imported breaks ``spacy.blank("en")``
for a whole environment. Everything else is imported when a component is built.
"""
