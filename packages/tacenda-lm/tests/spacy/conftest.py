"""Shared by the tests of the component: a small model."""

import pytest
import spacy

from tacenda_lm import KneserNey

LINES = [
    "the cat saw a dog .",
    "a dog saw the cat .",
    "the bird ate a red mouse .",
    "the dog chased the red bird .",
    "a mouse saw the dog and the cat .",
] * 3


@pytest.fixture(scope="session")
def model():
    return KneserNey(order=3).fit([line.split() for line in LINES])


@pytest.fixture
def pipeline(model):
    """Makes a pipeline with the component; ``sentences=True`` adds a sentencizer."""

    def make(sentences=False, artifact=model, **config):
        nlp = spacy.blank("en")
        if sentences:
            nlp.add_pipe("sentencizer")
        nlp.add_pipe("lm_scorer", config=config).initialize(artifact=artifact)
        return nlp

    return make
