"""Check that a packaged pipeline loads where only what it requires is installed, and tags.

python packaged.py PACKAGE
"""

from __future__ import annotations

import sys

import spacy

nlp = spacy.load(sys.argv[1])
doc = nlp("Lesyler gusan tigylt var toplomassa.")
assert doc.tensor.shape == (len(doc), nlp.get_pipe("lds_embeddings").width), doc.tensor.shape
assert all(token.tag_ for token in doc), [token.tag_ for token in doc]
print(" ".join(f"{token.text}/{token.tag_}" for token in doc))
