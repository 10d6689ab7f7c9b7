"""Caches: language models that expect the words of the text just read, as components of mixtures."""
