"""Which words of a text become types, from how often each was written."""

from collections import Counter
from collections.abc import Mapping

from tacit.errors import CorpusError
from tacit.lookup import BOUNDARY, UNKNOWN, Normalization, Oov, class_of, reserved
from tacit.word_classes import coarser_class


def select(
    counts: Mapping[str, int],
    n_sentences: int,
    *,
    max_vocabulary: int | None,
    min_count: int,
    normalization: Normalization,
    oov: Oov,
    min_class_count: int,
) -> tuple[list[str], list[int]]:
    """Words and counts in id order: count descending, then code point. Arguments as Vocabulary.from_counts."""
    if max_vocabulary is not None and max_vocabulary < 1:
        raise CorpusError(
            f"max_vocabulary is {max_vocabulary}; it must be at least 1, or None for all words"
        )
    if min_count < 1 or min_class_count < 1:
        raise CorpusError(
            f"min_count is {min_count} and min_class_count {min_class_count}; both must be at least 1"
        )
    names = reserved(oov)
    proper, special = _normalized(counts, normalization, names)
    ranked = sorted(proper.items(), key=_rank)
    n_kept = sum(count >= min_count for _, count in ranked)
    if max_vocabulary is not None:
        n_kept = min(n_kept, max_vocabulary)
    rare = ranked[n_kept:]
    if oov == "classes":
        special += _class_counts(rare, normalization)
        special = _fold(special, min_class_count)
    else:
        special[UNKNOWN] += sum(count for _, count in rare)
    special[BOUNDARY] += n_sentences
    special[UNKNOWN] += 0
    chosen = sorted([*ranked[:n_kept], *special.items()], key=_rank)
    return [word for word, _ in chosen], [count for _, count in chosen]


def _rank(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def _normalized(
    counts: Mapping[str, int], normalization: Normalization, names: frozenset[str]
) -> tuple[Counter[str], Counter[str]]:
    """Counts of proper words after normalization, and of reserved names written in the text."""
    special = Counter({name: counts[name] for name in names if name in counts})
    if not normalization:
        proper = Counter(dict(counts))
    else:
        proper = Counter()
        for word, count in counts.items():
            # a reserved name keeps its spelling; a word that becomes one by normalization means it too
            proper[word if word in names else normalization(word)] += count
        special = Counter({name: proper[name] for name in names if name in proper})
    for name in special:
        del proper[name]
    return proper, special


def _class_counts(rare: list[tuple[str, int]], normalization: Normalization) -> Counter[str]:
    classes: Counter[str] = Counter()
    for word, count in rare:
        classes[class_of(word, normalization)] += count
    return classes


def _fold(classes: Counter[str], min_class_count: int) -> Counter[str]:
    """Merge classes that are too rare into their coarser class, and those still too rare into ``<unk>``."""
    kept: Counter[str] = Counter()
    level = classes
    while level:
        coarser: Counter[str] = Counter()
        # a coarse class must have received all its finer ones before it is judged
        for name, count in level.items():
            above = coarser_class(name) if name.startswith("<oov:") else None
            if name in (BOUNDARY, UNKNOWN) or (count >= min_class_count and above is not None):
                kept[name] += count
            elif above is not None:
                coarser[above] += count
            else:
                coarser[name] += count
        if coarser == level:
            for name, count in coarser.items():
                kept[name if count >= min_class_count else UNKNOWN] += count
            return kept
        level = coarser
    return kept
