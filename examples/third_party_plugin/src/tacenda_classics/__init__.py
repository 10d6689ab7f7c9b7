"""Small classic models as Tacenda plugins, one of each kind, and a kernel backend that serves one of them.

Nothing is imported here: the entry points in ``pyproject.toml`` name the modules, and each is imported when its
plugin is asked for.
"""
