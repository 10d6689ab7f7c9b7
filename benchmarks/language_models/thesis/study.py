"""What a study is given, and where its rows go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks import reporting
from benchmarks.language_models.thesis import published, recipes
from benchmarks.language_models.thesis.fits import Bench
from benchmarks.language_models.thesis.plans import Plan
from benchmarks.language_models.thesis.texts import PROTOCOL


@dataclass(frozen=True)
class Study:
    """Fits to be had, how much of them, and whether results are written."""

    bench: Bench
    plan: Plan
    write: bool

    def name(self, what: str) -> str:
        """Of a results file."""
        return f"lm-thesis-{what}-{self.bench.texts.data}"

    def save(
        self,
        what: str,
        told: dict[str, Any],
        rows: list[dict[str, Any]],
        scored: str | None = None,
    ) -> None:
        """Rows and their protocol; ``told`` comes first.

        ``scored`` is the context of perplexities in rows that do not name theirs.
        """
        print(f"\n{what}", flush=True)
        if scored is not None:
            rows = [{"scored": scored, **row} for row in rows]
        if not self.write:
            reporting.print_table(rows)
            return
        texts = self.bench.texts
        protocol = {
            **told,
            "data": f"{texts.data}: {texts.train.n_tokens:,} words of training text, {len(texts.counts):,} types",
            "measure": "perplexity of the test text",
            "text": PROTOCOL,
            "scored": "sentence: each sentence by itself, after one </s>; stream: the running text; either: the model "
            "begins anew after every </s>, and both are the same",
            **recipes.SETTINGS,
            "published": published.SOURCE,
        }
        reporting.save(self.name(what), protocol, rows, seeds=(0,))
