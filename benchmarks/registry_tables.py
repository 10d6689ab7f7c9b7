"""What the registry says of operations and models, as Markdown tables; `benchmarks.tables` puts them into pages.

<!-- registry:operations -->
<!-- registry:models -->
"""

from __future__ import annotations

from collections.abc import Callable

from tacenda import plugins
from tacenda.kernels import backends
from tacenda.kernels.dispatch import OPERATIONS, define_operations

OURS = "tacenda"
DEVICES = "cpu", "cuda"


def operations() -> str:
    """Where each operation runs: the backends of the core that offer it, best first, whether installed here or not."""
    define_operations()
    shipped = sorted([backends.cpu, *backends.OF_CUDA.values()], key=lambda each: -each.priority)
    lines = ["| operation | on the CPU | on a CUDA device |", "| --- | --- | --- |"]
    # modules are imported in any order, and a plugin may have operations of its own
    ours = [each for each in OPERATIONS.items() if each[1].__module__.startswith(f"{OURS}.")]
    for operation, public in sorted(ours, key=lambda each: each[1].__module__):
        cells = []
        for device in DEVICES:
            serving = [b.file for b in shipped if device in b.devices and b.offers(operation)]
            cells.append(" or ".join(serving) if device == "cuda" else _of_cpu(serving))
        family = public.__module__.rpartition(".")[2]
        lines.append(f"| `{operation}` ({family}) | {cells[0]} | {cells[1] or '-'} |")
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
