"""``varembed_embeddings`` in a pipeline: by itself, beside an LDS, on disk, trained on, in processes."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

from support.pipelines import pipeline, reload
from tacenda.errors import ConfigurationError
from tacenda_embeddings import LDS

pytestmark = pytest.mark.usefixtures("spacy_entry_points")


@pytest.fixture(scope="module")
def lds(corpus):
    return LDS(n_states=6, kappa=5.0, subspace_iterations=2, full_iterations=1).fit(corpus)


@pytest.fixture
def nlp(varembed):
    return pipeline(varembed, "varembed_embeddings")


def both(lds, varembed):
    nlp = pipeline(lds, "lds_embeddings")
    nlp.add_pipe("varembed_embeddings", config={"mode": "append"}).initialize(artifact=varembed)
    return nlp


def test_an_artifact_of_another_embedder_is_refused(lds, sumembed):
    for model in (lds, sumembed):
        component = spacy.blank("en").add_pipe("varembed_embeddings")
        with pytest.raises(ConfigurationError, match="not 'varembed'"):
            component.initialize(artifact=model)


def test_a_stock_tagger_learns_from_the_joint_tensor(lds, varembed, texts, tmp_path):
    nlp = both(lds, varembed)
    tok2vec = {"@architectures": "tacenda.DocTensor.v1", "projection": 24, "maxout_pieces": 2}
    nlp.add_pipe("tagger", config={"model": {"tok2vec": tok2vec}})
    frequent = set(varembed.vocabulary.words[:12])
    examples = [
        Example.from_dict(
            Doc(nlp.vocab, words=words),
            {"words": words, "tags": ["F" if word in frequent else "R" for word in words]},
        )
        for words in texts[:40]
    ]
    names = ["lds_embeddings", "varembed_embeddings"]
    config = nlp.config
    for name, artifact in zip(names, (lds, varembed), strict=True):
        artifact.save(tmp_path / name)
        config["initialize"]["components"][name] = {"artifact": str(tmp_path / name)}
    nlp.config = config
    optimizer = nlp.initialize(lambda: examples)
    optimizer.learn_rate = 0.02
    losses = [nlp.update(examples, sgd=optimizer, annotates=names)["tagger"] for _ in range(20)]
    assert losses[-1] < 0.5 * losses[0]
    for each in (nlp, reload(nlp, tmp_path / "p")):
        doc = each(Doc(each.vocab, words=texts[0]))
        right = [token.tag_ == ("F" if token.text in frequent else "R") for token in doc]
        assert np.mean(right) > 0.8
