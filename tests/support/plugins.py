"""Plugins for the length of a test."""

from contextlib import contextmanager

from tacenda import plugins


def register_missing(*models):
    """Register models that are not installed, should this source tree not be the installed one."""
    known = {record.name for record in plugins.available("embedders")}
    for cls in models:
        if cls.name not in known:
            plugins.register("embedders", cls.name, cls, distribution=cls.distribution)


@contextmanager
def registered(kind, name, thing, **options):
    plugins.register(kind, name, thing, **options)
    try:
        yield
    finally:
        plugins.unregister(kind, name, **options)
