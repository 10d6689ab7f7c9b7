PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
PACKAGES := $(wildcard packages/*/pyproject.toml)

.PHONY: setup demo test unit lint install-check bench docs clean

setup: $(STAMP)

$(STAMP): constraints.txt $(PACKAGES)
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Tacit needs Python 3.11 or newer: run make PYTHON=/path/to/python3.11')"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-e packages/tacit-core[torch,spacy,testing] -e packages/tacit-embeddings[spacy,testing] \
		-e packages/tacit-lm[spacy,testing] -e packages/tacit-surprise[testing] \
		ruff mypy pytest-timeout tox tox-uv uv gensim hatchling
	touch $(STAMP)
