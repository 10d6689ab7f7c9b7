"""The LDS models that are compared: fitted once on the text by the code as it is, kept in the cache."""

from __future__ import annotations

import hashlib
import json
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import tacenda
from benchmarks import freshness, parts
from benchmarks.embeddings import common, text
from tacenda_embeddings import LDS, LaggedCounts
from tacenda_embeddings.lds.settings import N_LAGS

# Arguments of LDS that differ from its defaults.
VARIANTS: dict[str, dict[str, Any]] = {
    "em": {},
    "h100": {"n_states": 100},
    "h300": {"n_states": 300},
    "ssid": {"subspace_iterations": 0, "full_iterations": 0},
    "random": {
        "subspace_iterations": 0,
        "full_iterations": 22,
        "advanced": {"start": "random"},
    },
    "unwhitened": {"advanced": {"whiten": False}},
    "diagonal": {"advanced": {"noise": "diagonal"}},
    "spherical": {"advanced": {"noise": "spherical"}},
}


@lru_cache(maxsize=1)
def counts(cache: Path) -> LaggedCounts:
    """Lagged counts of the text, the same for every variant."""
    return LaggedCounts.from_corpus(text.corpus(cache), N_LAGS)


def code() -> str:
    """Digest of the code of the LDS: what other code has made does not count."""
    digests = "".join(freshness.code(each) for each in parts.LDS)
    return hashlib.sha256(digests.encode()).hexdigest()[:8]


def folder(cache: Path, variant: str) -> Path:
    """Where the model of a variant lies."""
    return cache / f"lds-{variant}-{code()}"


@lru_cache(maxsize=2)
def fitted(cache: Path, variant: str = "em") -> LDS:
    """The variant's model, loaded or fitted and saved."""
    path = folder(cache, variant)
    if path.exists():
        return tacenda.load(path)
    log = common.logger("models", cache)
    lagged = counts(cache)
    start = time.perf_counter()
    model = LDS(**VARIANTS[variant]).fit(lagged)
    log.info("fitted LDS %s in %.0f s, counts apart", variant, time.perf_counter() - start)
    model.save(path)
    return tacenda.load(path)


def version(cache: Path, variant: str | None, static: bool = False) -> str:
    """Changes when the code or the settings of the model do, or the text, so that old cells do not count."""
    if not variant and not static:
        return "none"
    made = [f"{variant} {code()}"] if variant else []
    settings = LDS(**VARIANTS[variant]).settings.to_dict() if variant else {}
    of = json.dumps([settings, text.corpus(cache).vocabulary.fingerprint], sort_keys=True)
    return "+".join([*made, hashlib.sha256(of.encode()).hexdigest()[:10]])


def main() -> None:
    """Fit every variant that is not there yet."""
    parser = common.arguments(main.__doc__)
    options = parser.parse_args()
    for variant in common.chosen(VARIANTS, options.only):
        fitted(options.cache, variant)


if __name__ == "__main__":
    main()
