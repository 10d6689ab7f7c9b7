"""spaCy pipelines of embedding components, and a model of word vectors for them."""

import numpy as np
import spacy


def add(nlp, name, model=None, **config):
    """Add an embedding component of the embedder ``toy``, with a model if one is given, and return it."""
    component = nlp.add_pipe("token_embeddings", name=name, config={"embedder": "toy", **config})
    if model is not None:
        component.initialize(artifact=model)
    return component


def pipeline(model, factory="token_embeddings", **config):
    """Make an English pipeline of one embedding component that has this model."""
    nlp = spacy.blank("en")
    nlp.add_pipe(factory, config=config).initialize(artifact=model)
    return nlp


def reload(nlp, folder):
    """Save a pipeline, and load it from there."""
    nlp.to_disk(folder)
    return spacy.load(folder)


class Letters:
    """As much of a fitted model of word vectors as the vectors of a pipeline look at."""

    name = "letters"
    pieces = vectors = None

    class vocabulary:  # noqa: N801 - stands for an attribute
        words = ("the", "cat", "saw")
        __contains__ = words.__contains__
        is_reserved = ("</s>", "<unk>").__contains__

    def scaled_vectors(self, words):
        return np.array([[len(word), ord(word[0]) / 50, ord(word[-1]) / 50] for word in words], "f")

    def to_artifact(self):
        return self

    def to_bytes(self):
        return b"letters"
