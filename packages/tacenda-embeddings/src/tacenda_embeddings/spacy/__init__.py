"""The spaCy side of the embeddings: pipeline components and model architectures.

The modules that entry points name (``factories``, ``doc_tensor``, ``concat_embed``, ``vectors``, ``linear_algebra``)
import only spaCy, thinc, NumPy, the standard library and ``tacenda.errors``, because an entry point that cannot be
imported breaks ``spacy.blank("en")`` for a whole environment. Everything else is imported when a component is built.
"""
