"""A corpus from a source of coded blocks: found in a cache folder, or built there or in memory."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tacenda.corpus import building
from tacenda.corpus.building import CodedBlock, Parts, Selection, Types, assemble
from tacenda.corpus.cache import building as building_in
from tacenda.corpus.cache import commit, reusable
from tacenda.corpus.lines import Lines, text_blocks
from tacenda.corpus.storage import Place
from tacenda.corpus.workers import check_sendable, code_in_workers
from tacenda.errors import CorpusError
from tacenda.tokenizers import Tokenizer, get_tokenizer
from tacenda.vocabulary import Vocabulary

Coder = Callable[[Types], Iterator[CodedBlock]]


def make(
    coder: Coder,
    selection: Selection,
    vocabulary: Vocabulary | None,
    folder: Path | None,
    fingerprint: str | None,
    origin: dict[str, Any],
) -> Parts:
    """Build a corpus, or take it from the folder if the one there has the same fingerprint."""
    types = Types()
    what = ", ".join(origin["sources"]) or "the text"
    if folder is None:
        return assemble(coder(types), types, Place(), selection, vocabulary, what)
    found = reusable(folder, fingerprint)
    if found is not None:
        # the fingerprint covers a given vocabulary's words, not its counts: keep the one given
        known = found.vocabulary if vocabulary is None else vocabulary
        return Parts(found.ids, found.offsets, known, Place(folder))
    with building_in(folder) as data:
        parts = assemble(coder(types), types, Place(data), selection, vocabulary, what)
        n_sentences = len(parts.offsets) - 1
        commit(data, len(parts.ids), n_sentences, parts.vocabulary, origin, fingerprint)
    return parts


def text_coder(
    text: Lines,
    tokenizer: str | Tokenizer,
    encoding: str,
    errors: str,
    workers: int,
) -> Coder:
    """What tokenizes and codes a text, in this process or in several. Raises CorpusError."""
    tokenize = get_tokenizer(tokenizer)
    if workers > 1:
        check_sendable(tokenizer)

    def coder(types: Types) -> Iterator[CodedBlock]:
        blocks = text_blocks(text, encoding, errors)
        if workers == 1:
            return building.code_lines(blocks, tokenize, types)
        return code_in_workers(blocks, tokenizer, types, workers)

    return coder


def selection_for(vocabulary: Vocabulary | None, selection: Selection) -> Selection:
    """The selection, checked: a given vocabulary leaves nothing to select. Raises CorpusError."""
    if vocabulary is None:
        return selection
    digits, lowercase = vocabulary.normalization.digits, vocabulary.normalization.lowercase
    settled = Selection(digits=digits, lowercase=lowercase, oov=vocabulary.oov)
    for name, default in vars(Selection()).items():
        value = getattr(selection, name)
        if value != default and value != getattr(settled, name):
            raise CorpusError(
                f"{name}={value!r} contradicts the vocabulary that was given, which settles it; "
                "leave one of the two out"
            )
    return settled
