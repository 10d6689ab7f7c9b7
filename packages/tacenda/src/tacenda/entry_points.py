"""What the installed distributions offer under the entry-point groups ``tacenda.<kind>``."""

from __future__ import annotations

import importlib.metadata
import logging
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """A claim on a name: an installed entry point, or an object registered in this process."""

    kind: str
    name: str
    distribution: str
    version: str
    target: str
    load: Callable[[], Any] = field(compare=False, repr=False)

    @property
    def key(self) -> tuple[str, str, str]:
        """Kind, name and distribution, however the last is spelled."""
        return self.kind, self.name, canonical(self.distribution)


def installed_entries(kinds: Collection[str]) -> tuple[Entry, ...]:
    """The entry points of these kinds; one distribution's bad metadata hide no other's."""
    found: dict[Entry, None] = {}
    seen: set[str] = set()
    for dist in importlib.metadata.distributions():
        try:
            name = dist.metadata["Name"]
            if not name or canonical(name) in seen:
                continue  # an editable install may be seen twice: what is first on sys.path counts
            for point in dist.entry_points:
                kind = point.group.removeprefix("tacenda.")
                if kind in kinds and point.group != kind:
                    entry = Entry(kind, point.name, name, dist.version, point.value, point.load)
                    found[entry] = None
            seen.add(canonical(name))
        except Exception as error:  # foreign metadata may fail in any way
            logger.warning("skipped a distribution with unreadable metadata: %r", error)
    return tuple(found)


def canonical(distribution: str) -> str:
    """The distribution's name as the packaging standards compare it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()
