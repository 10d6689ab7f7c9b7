"""spaCy pipelines of embedding components."""

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
