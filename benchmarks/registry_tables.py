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


def operations() -> str:
    """Where each operation runs on CUDA: the backends of the core that offer it, best first, installed here or not."""
    define_operations()
    shipped = sorted(backends.CUDA_BACKENDS.values(), key=lambda each: -each.priority)
    lines = ["| operation | on a CUDA device |", "| --- | --- |"]
    # modules are imported in any order, and a plugin may have operations of its own
    ours = [each for each in OPERATIONS.items() if each[1].__module__.startswith(f"{OURS}.")]
    for operation, public in sorted(ours, key=lambda each: each[1].__module__):
        serving = [each.file for each in shipped if each.offers(operation)]
        family = public.__module__.rpartition(".")[2]
        lines.append(f"| `{operation}` ({family}) | {' or '.join(serving) or '-'} |")
    return "\n".join(lines) + "\n"


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
