"""Brown clusters (Brown et al. 1992) of the same text and vocabulary, as `tacenda lm clusters` finds them."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.embeddings import common, text
from tacenda_lm import BrownClusters, brown_clusters

N_CLASSES = 320


def clusters(cache: Path, n_classes: int = N_CLASSES) -> dict[str, str]:
    """Word -> bit string, computed once and kept in the cache."""
    path = cache / f"brown-{n_classes}.paths"
    if not path.exists():
        start = time.perf_counter()
        brown_clusters(text.corpus(cache), n_classes).save(path)
        seconds = time.perf_counter() - start
        common.logger("brown", cache).info("%d classes in %.0f s", n_classes, seconds)
    return dict(BrownClusters.load(path).paths)


if __name__ == "__main__":
    clusters(common.arguments(__doc__).parse_args().cache)
