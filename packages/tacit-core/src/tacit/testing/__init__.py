"""The conformance kit: test classes to inherit, so that a plugin is held to what Tacit's own are.

Needs pytest: install ``tacit-core[testing]``.
"""
