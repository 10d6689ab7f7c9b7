"""How words are cut into morphemes: one interface, three ways, each with its form as arrays."""

from tacenda_embeddings.varembed.segmenters.base import (
    Segmenter,
    learn_segmenter,
    segmenter_from_arrays,
)

__all__ = ["Segmenter", "learn_segmenter", "segmenter_from_arrays"]
