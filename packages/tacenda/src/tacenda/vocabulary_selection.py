"""Which words of a text become types, from how often each was written."""

from collections import Counter
from collections.abc import Mapping
from operator import itemgetter

from tacenda.errors import CorpusError
from tacenda.lookup import BOUNDARY, UNKNOWN, Normalization, Oov, class_of, reserved
from tacenda.word_classes import coarser_class


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
    """Words and counts in id order: count descending, then code point.

    Arguments as Vocabulary.from_counts. Raises CorpusError for a limit below 1.
    """
    limits = {"min_count": min_count, "min_class_count": min_class_count}
    if max_vocabulary is not None:
        limits["max_vocabulary"] = max_vocabulary
    for name, limit in limits.items():
        if limit < 1:
            raise CorpusError(f"{name} is {limit}; it must be at least 1")
    proper, special = _normalized(counts, normalization, reserved(oov))
    kept = dict(_most_frequent(proper, max_vocabulary, min_count))
    for word in proper.keys() - kept.keys():
        name = class_of(word, normalization) if oov == "classes" else UNKNOWN
        special[name] += proper[word]
    if oov == "classes":
        special = _merge_rare(special, min_class_count)
    special[BOUNDARY] += n_sentences
    special[UNKNOWN] += 0
    chosen = _ranked(kept | special)
    return [word for word, _ in chosen], [count for _, count in chosen]


def _most_frequent(
    counts: Mapping[str, int], n: int | None, min_count: int
) -> list[tuple[str, int]]:
    least = min_count
    if n is not None and n < len(counts):
        # sorting a million words that are not kept would take longer than all the rest
        nth = sorted(counts.values(), reverse=True)[n - 1]
        least = max(least, nth)
    return _ranked({word: count for word, count in counts.items() if count >= least})[:n]


def _ranked(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    ranked = sorted(counts.items(), key=itemgetter(0))
    ranked.sort(key=itemgetter(1), reverse=True)  # stable: ties stay in the order of the words
    return ranked


def _normalized(
    counts: Mapping[str, int], normalization: Normalization, names: frozenset[str]
) -> tuple[Counter[str], Counter[str]]:
    """Counts of proper words after normalization, and of reserved names written in the text."""
    proper: Counter[str] = Counter()
    if normalization:
        for word, count in counts.items():
            # a reserved name keeps its spelling; what becomes one by normalization means it too
            proper[word if word in names else normalization(word)] += count
    else:
        proper.update(counts)
    special = Counter({name: proper.pop(name) for name in names if name in proper})
    return proper, special


def _merge_rare(counts: Counter[str], min_class_count: int) -> Counter[str]:
    """Move rare classes into their coarser class, and rare coarse classes into ``<unk>``."""
    kept = Counter({name: counts.pop(name, 0) for name in (BOUNDARY, UNKNOWN)})
    coarse: Counter[str] = Counter()
    for name, count in counts.items():
        above = coarser_class(name)
        if above is not None and count >= min_class_count:
            kept[name] = count
        else:
            coarse[above or name] += count
    # a coarse class has received all that was merged into it before it is judged
    for name, count in coarse.items():
        kept[name if count >= min_class_count else UNKNOWN] += count
    return kept
