"""Documents of a stream in batches of bounded size."""

from collections.abc import Iterable, Iterator

from spacy.tokens import Doc

__all__ = ["token_batches"]


def token_batches(stream: Iterable[Doc], n_tokens: int, n_docs: int) -> Iterator[list[Doc]]:
    """Group documents, in order, until a batch holds ``n_tokens`` tokens or ``n_docs`` documents.

    A document is never split, so one longer than the budget is a batch of its own size.
    """
    batch: list[Doc] = []
    size = 0
    for doc in stream:
        if batch and size + len(doc) > n_tokens:
            yield batch
            batch, size = [], 0
        batch.append(doc)
        size += len(doc)
        if size >= n_tokens or len(batch) >= n_docs:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
