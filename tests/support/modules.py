"""Modules beside a test, which is in no package under pytest's importlib mode."""

import importlib.util
import sys


def load_module(path):
    """Import a file under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
