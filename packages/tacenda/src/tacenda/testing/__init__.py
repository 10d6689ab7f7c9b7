"""Conformance: one call that holds a plugin to the promises of Tacenda's own plugins.

`tacenda.testing.models.check_estimator` is for any saved model and `tacenda.testing.kernels` for a kernel backend; the
calls for embedders, language models and recommenders are in ``tacenda_embeddings.testing``, ``tacenda_lm.testing`` and
``tacenda_surprise.testing``. Install ``tacenda[testing]``.
"""
