"""Conformance kits: test classes to inherit, so that a plugin is held to what Tacenda's own are.

`tacenda.testing.models` has what every saved model promises, `tacenda.testing.kernels` what every kernel
backend promises. The kits for models stand beside their contracts: ``tacenda_embeddings.testing``,
``tacenda_lm.testing``, ``tacenda_surprise.testing``.

Needs pytest: install ``tacenda[testing]``.
"""
