"""The spaCy side of the embeddings: pipeline components and model architectures.

The modules that entry points name, and what these import at the top, import only spaCy with its dependencies, the
standard library and ``tacenda.errors``, because an entry point that cannot be imported breaks ``spacy.blank("en")`` for
a whole environment. Everything else is imported when a component is built.
"""
