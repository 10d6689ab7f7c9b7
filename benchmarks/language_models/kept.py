"""Fitted models that several benchmarks read, kept under TACENDA_BENCH_CACHE.

A model is kept under a digest of its settings and of the code that fitted it: when either changes it is fitted anew.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tacenda
from benchmarks import freshness, parts, reporting
from tacenda_lm import LanguageModel


def kept(
    name: str,
    settings: dict[str, Any],
    measures: Sequence[str],
    fit: Callable[[Path], LanguageModel],
) -> tuple[Any, dict[str, Any]]:
    """A fitted model and what its fit took; fitted now unless it is kept.

    Parameters
    ----------
    name
        Of the model and its text, for the folder.
    settings, measures
        The digest: JSON values, and files and folders of the packages as in `benchmarks.parts`.
    fit
        Fits the model; it is given a folder for checkpoints.

    Returns
    -------
    The model, and a row with ``fit s`` by the clock, ``CPU s`` of the processor, ``peak GB`` that were resident in the
    process up to the end of the fit, and ``on disk GB``. A fit that went on from a checkpoint has no seconds.
    """
    facts = {"settings": settings, "code": {each: freshness.code(each) for each in measures}}
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
    folder = parts.kept_folder() / "language-models" / f"{name}-{digest}"
    done = folder / "fit.json"
    if not done.exists():
        broken_off = (folder / "checkpoints").exists()
        wall, processor = time.perf_counter(), time.process_time()
        model = fit(folder / "checkpoints")
        seconds = time.perf_counter() - wall, time.process_time() - processor
        model.save(folder / "model")
        row = {
            "fit s": None if broken_off else seconds[0],
            "CPU s": None if broken_off else seconds[1],
            "peak GB": reporting.peak() / 1e9,
            "on disk GB": sum(each.stat().st_size for each in (folder / "model").rglob("*")) / 1e9,
        }
        done.write_text(json.dumps(row), encoding="utf-8")
    found = tacenda.load(folder / "model")
    return found, json.loads(done.read_text(encoding="utf-8"))
