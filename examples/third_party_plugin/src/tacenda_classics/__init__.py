"""Small classic models as Tacenda plugins, one of each kind, and a kernel backend for one of them.

This file imports nothing. The entry points in ``pyproject.toml`` name the modules, and each module is imported when
its plugin is needed.
"""
