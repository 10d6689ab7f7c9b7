"""Check which modules an environment has, which it lacks, and that ours come from wheels.

    python absent.py MODULE ... --not MODULE ...

Modules before --not must be importable, those after it must not. Every distribution of ours must be
an ordinary installation, its metadata in step with its module, and each of its entry points must
load, or name in one sentence what is missing.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
from importlib.metadata import EntryPoint, distributions
from pathlib import Path

from tacenda.artifact import by_name
from tacenda.errors import PluginUnavailableError

SITE = Path(sysconfig.get_path("purelib"))


def main() -> None:
    arguments = sys.argv[1:]
    border = arguments.index("--not")
    present, absent = arguments[:border], arguments[border + 1 :]
    for name in present:
        module = importlib.import_module(name)
        check(SITE in Path(str(module.__file__)).parents, f"{name} is from {module.__file__}")
    for name in absent:
        check(importlib.util.find_spec(name) is None, f"{name} is importable and must not be")
    ours = [d for d in distributions() if d.metadata["Name"].partition("-")[0] == "tacenda"]
    for distribution in ours:
        name = distribution.metadata["Name"]
        module_name = "tacenda" if name == "tacenda" else name.replace("-", "_")
        if importlib.util.find_spec(module_name):  # one of models alone has no module
            module = importlib.import_module(module_name)
            version = getattr(module, "__version__", distribution.version)
            check(version == distribution.version, f"{name}: {version}, not {distribution.version}")
        for entry_point in distribution.entry_points:
            check_loads(entry_point, name)
    print(f"present: {', '.join(present)}; absent: {', '.join(absent) or '-'}")


def check_loads(entry_point: EntryPoint, distribution: str) -> None:
    """Load it. spaCy's groups need spaCy; a plugin may be unavailable here, but must say why."""
    if entry_point.group == "tacenda.models":  # a folder, which is read
        check(by_name.locate(entry_point.name).is_dir(), f"{entry_point.value} is no folder")
        return
    if entry_point.group.startswith("spacy_") and importlib.util.find_spec("spacy") is None:
        return
    try:
        entry_point.load()
    except PluginUnavailableError as error:
        print(f"unavailable: {entry_point.value}: {error}")
    except Exception as error:
        complaint = f"{distribution}: {entry_point.value} cannot be loaded: {error!r}"
        raise SystemExit(complaint) from error


def check(fact: bool, complaint: str) -> None:
    if not fact:
        raise SystemExit(complaint)


main()
