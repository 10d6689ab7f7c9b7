"""The conformance kit: test classes to inherit, so that a plugin is held to what Tacenda's own are.

Needs pytest: install ``tacenda[testing]``.
"""
