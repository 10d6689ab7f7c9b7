"""spaCy factories; this module imports spaCy and the standard library only."""

from typing import Any

from spacy.language import Language


@Language.factory("lds_embeddings", assigns=["doc.tensor"])
def lds_embeddings(nlp: Language, name: str) -> Any:
    """Token embeddings of a linear dynamical system."""
    from tacit_embeddings.spacy.component import TokenEmbeddings

    return TokenEmbeddings(nlp, name)


@Language.factory("token_embeddings", assigns=["doc.tensor"])
def token_embeddings(nlp: Language, name: str) -> Any:
    """Token embeddings of any registered embedder."""
    from tacit_embeddings.spacy.component import TokenEmbeddings

    return TokenEmbeddings(nlp, name)
