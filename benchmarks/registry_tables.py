"""What the registry says of operations and models, as Markdown tables; `benchmarks.tables` puts them into pages.

<!-- registry:operations -->
<!-- registry:models -->
"""

from __future__ import annotations

from collections.abc import Callable

from tacenda import plugins
from tacenda.kernels import Backend, backends

OURS = "tacenda"
DEVICES = "cpu", "cuda"


def operations() -> str:
    """Where each operation runs: the backends of the core that offer it, best first, whether installed here or not."""
    shipped: list[Backend] = [backends.cpu, *backends.OF_CUDA.values()]
    shipped.sort(key=lambda backend: -backend.priority)
    lines = ["| operation | on the CPU | on a CUDA device |", "| --- | --- | --- |"]
    for operation, place in backends.OPERATIONS.items():
        cells = []
        for device in DEVICES:
            serving = [b.name for b in shipped if device in b.devices and operation in b.operations]
            cells.append(" or ".join(serving) if device == "cuda" else _of_cpu(serving))
        wing = place.split(".")[0]
        lines.append(f"| `{operation}` ({wing}) | {cells[0]} | {cells[1] or '-'} |")
    return "\n".join(lines) + "\n"


def _of_cpu(serving: list[str]) -> str:
    return "numba or BLAS" if serving else "-"


def models() -> str:
    """Which models have the option ``device``, of those that come with Tacenda."""
    lines = ["| model | `device` |", "| --- | --- |"]
    for kind in ("embedders", "language_models", "recommenders"):
        for record in plugins.available(kind):
            if record.distribution.partition("-")[0] != OURS:
                continue
            model = plugins.get(kind, record.name, distribution=record.distribution)
            settings = getattr(model, "settings_class", None)
            named = {o.name: o for o in settings.options()} if settings else {}
            where = f"yes, {named['device'].default!r}" if "device" in named else "-"
            lines.append(f"| {model.__name__} | {where} |")
    return "\n".join(lines) + "\n"


TABLES: dict[str, Callable[[], str]] = {"operations": operations, "models": models}
