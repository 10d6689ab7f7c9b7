"""The component as every one that holds a model, and documents that it has scored."""

import json

import pytest
from spacy.tokens import Doc, DocBin

from support.components import ComponentTests
from support.processes import output_of

TEXT = "the cat saw a zebra ."


def values(doc, prefix=""):
    tokens = [
        [t._.get(prefix + name) for name in ("surprisal", "lm_logprob", "lm_oov")] for t in doc
    ]
    return tokens, doc._.get(f"{prefix}perplexity"), doc[1:4]._.get(f"{prefix}lm_logprob")


OPTIONS = {
    "prefix": "kit_", "context": "sentence", "eos": False, "rank": True, "entropy": True, "lowercase": True,
    "number_word": "N", "batch_tokens": 5,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*no sentence boundaries")
class TestScorer(ComponentTests):
    factory, factories = "lm_scorer", ("lm_scorer",)
    assigns, distribution = "doc._.perplexity", "tacenda-lm"
    options = OPTIONS

    @pytest.fixture
    def fitted(self, model):
        return model

    def values(self, doc):
        more = [(t._.kit_lm_rank, t._.kit_lm_entropy) for t in doc]
        return values(doc, "kit_"), more


@pytest.fixture
def nlp(pipeline):
    return pipeline(sentences=True, lowercase=True, number_word="N", context="sentence")


def test_scores_survive_the_bytes_of_a_document(pipeline):
    nlp = pipeline(rank=True, entropy=True)
    doc = nlp(TEXT)
    copy = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert values(copy) == values(doc)
    assert [t._.lm_rank for t in copy] == [t._.lm_rank for t in doc]
    assert [t._.lm_entropy for t in copy] == [t._.lm_entropy for t in doc]


def test_scores_survive_a_docbin_with_user_data(nlp):
    docs = [nlp(TEXT), nlp(""), nlp("a red mouse .")]
    data = DocBin(docs=docs, store_user_data=True).to_bytes()
    copies = list(DocBin().from_bytes(data).get_docs(nlp.vocab))
    assert [values(copy)[0] for copy in copies] == [values(doc)[0] for doc in docs]
    assert copies[0]._.perplexity == docs[0]._.perplexity


_READER = """
import json, sys, spacy
from spacy.tokens import Doc, DocBin
from tacenda_lm.spacy import register, render

register()
vocab = spacy.blank("en").vocab
with open(sys.argv[1], "rb") as file:
    docs = [Doc(vocab).from_bytes(file.read()), *DocBin().from_disk(sys.argv[2]).get_docs(vocab)]
assert all("zebra" in render(doc) for doc in docs)
found = [[[t._.surprisal for t in d], [t._.lm_rank for t in d], d._.perplexity, d[1:4]._.lm_logprob] for d in docs]
print(json.dumps(found))
"""


def test_stored_scores_are_read_in_a_process_without_the_component(pipeline, tmp_path):
    doc = pipeline(rank=True)(TEXT)
    (tmp_path / "doc").write_bytes(doc.to_bytes())
    DocBin(docs=[doc], store_user_data=True).to_disk(tmp_path / "docs.spacy")
    printed = output_of("-c", _READER, tmp_path / "doc", tmp_path / "docs.spacy")
    ranks = [t._.lm_rank for t in doc]
    one = [[t._.surprisal for t in doc], ranks, doc._.perplexity, doc[1:4]._.lm_logprob]
    assert json.loads(printed) == [one, one]
