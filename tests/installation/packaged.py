"""Check that a packaged pipeline loads where only what it requires is installed, and does its work.

python packaged.py PACKAGE
"""

from __future__ import annotations

import sys

import spacy

nlp = spacy.load(sys.argv[1])
doc = nlp("Lesyler gusan tigylt var toplomassa.")
if "lds_embeddings" in nlp.pipe_names:
    assert doc.tensor.shape == (len(doc), nlp.get_pipe("lds_embeddings").width), doc.tensor.shape
    assert all(token.tag_ for token in doc), [token.tag_ for token in doc]
    print(" ".join(f"{token.text}/{token.tag_}" for token in doc))
if "lm_scorer" in nlp.pipe_names:
    assert all(token._.surprisal > 0 for token in doc), [token._.surprisal for token in doc]
    print(" ".join(f"{token.text}/{token._.surprisal:.1f}" for token in doc), doc._.perplexity)
assert {"lds_embeddings", "lm_scorer"} & set(nlp.pipe_names), nlp.pipe_names
