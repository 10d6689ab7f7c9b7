"""The model architectures of the entry points; each has a file of its own."""

from tacenda_embeddings.spacy.concat_embed import concat_embed
from tacenda_embeddings.spacy.doc_tensor import doc_tensor

__all__ = ["concat_embed", "doc_tensor"]
