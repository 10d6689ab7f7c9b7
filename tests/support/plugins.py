"""Plugins for the length of a test."""

from contextlib import contextmanager

from tacenda import plugins


@contextmanager
def registered(kind, name, thing, **options):
    plugins.register(kind, name, thing, **options)
    try:
        yield
    finally:
        plugins.unregister(kind, name, **options)
