"""Tokenization in several processes: the same ids in the same order as in one.

A worker turns a block of lines into the distinct strings of the block, in order of appearance, and
numbers that point at them; the parent only gives ids to new strings, so little travels and little
is left to do.
"""

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import Final

import numpy as np

from tacenda.corpus.building import CodedBlock, Types, code, tokenize
from tacenda.errors import CorpusError
from tacenda.tokenizers import Tokenizer, get_tokenizer

_IN_FLIGHT: Final = 3  # blocks per worker that are read ahead

_LocalBlock = tuple[list[str], bytes, bytes]


def code_in_workers(
    blocks: Iterable[list[str]], tokenizer: str | Tokenizer, types: Types, workers: int
) -> Iterator[CodedBlock]:
    """Provisional ids of blocks of lines, as building.code_lines, tokenized by worker processes.

    The tokenizer must be a name or a function that another process can import.
    """
    # spawned, not forked: the threads of numeric libraries do not survive a fork
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(workers, context, _start, (tokenizer,)) as pool:
            pending: deque[Future[_LocalBlock]] = deque()
            try:
                for lines in blocks:
                    pending.append(pool.submit(_code_here, lines))
                    if len(pending) > _IN_FLIGHT * workers:
                        yield _merge(pending.popleft().result(), types)
                while pending:
                    yield _merge(pending.popleft().result(), types)
            finally:
                for future in pending:
                    future.cancel()
    except BrokenProcessPool as error:
        raise CorpusError(
            "a tokenizer process ended unexpectedly; in a script, call from_text under "
            'if __name__ == "__main__":, or use workers=1'
        ) from error


def check_sendable(tokenizer: str | Tokenizer) -> None:
    """Raise CorpusError unless other processes can import the tokenizer."""
    if isinstance(tokenizer, str):
        get_tokenizer(tokenizer)
        return
    import pickle

    try:
        pickle.dumps(tokenizer)
    except Exception as error:
        raise CorpusError(
            f"the tokenizer {tokenizer!r:.80} cannot be sent to other processes; "
            "give a function defined in a module, or workers=1"
        ) from error


def _merge(block: _LocalBlock, types: Types) -> CodedBlock:
    words, ids, lengths = block
    table = np.fromiter(map(types.__getitem__, words), dtype=np.int32, count=len(words))
    return table[np.frombuffer(ids, np.int32)], np.frombuffer(lengths, np.int64)


_tokenizer: Tokenizer | None = None


def _start(tokenizer: str | Tokenizer) -> None:
    global _tokenizer
    _tokenizer = get_tokenizer(tokenizer)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would otherwise wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _code_here(lines: list[str]) -> _LocalBlock:
    assert _tokenizer is not None
    types = Types()
    ids, lengths = code(tokenize(lines, _tokenizer), types)
    return list(types), ids.tobytes(), lengths.tobytes()
