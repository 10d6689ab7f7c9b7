"""Commands of pages that have a measured table fit the models that the table is of.

What a command means is read from the command line itself, and what was measured from the code of the benchmark: its
calls are intercepted, so that no text is read and nothing is fitted.
"""

import re
import shlex
from functools import cache
from typing import Any
from unittest.mock import Mock

import pytest
import typer

from benchmarks.embeddings import models, pipelines, text
from benchmarks.varembed import models as word_models
from support.pages import PAGES, ROOT, read_blocks
from tacenda import Corpus, plugins
from tacenda.cli.options import options_of
from tacenda.corpus.word_ids import Selection
from tacenda_embeddings.cli import _make_embedders

VOCABULARY = ("tokenizer", "max_vocabulary", "min_count", "digits", "lowercase", "oov")


def commands(page):
    """Yield the words of each command of a page that fits a model or writes a configuration."""
    for block in read_blocks(page):
        if block.language in ("sh", "console"):
            for line in block.code.replace("\\\n", " ").splitlines():
                words = shlex.split(line.removeprefix("$ "))
                if words[:1] == ["tacenda"] and words[2:3] in (["fit"], ["init-config"]):
                    yield words[1:]


@cache
def parameters(*words):
    """Return the value of every parameter of a command, given or not."""
    command: Any = typer.main.get_command(plugins.get("commands", words[0]))
    return command.commands[words[1]].make_context(words[1], list(words[2:])).params


def told(words):
    """Return model, vocabulary and settings of a ``fit`` command."""
    given = parameters(*words)
    options = options_of(
        given["settings"], n_states=given["n_states"], output=given["model_output"]
    )
    model = plugins.make("embedders", given["model"], options)
    return model.name, {name: given[name] for name in VOCABULARY}, settings_of(model)


def told_of_both(words):
    """Return names and settings of the models of a ``fit --model vectors`` command."""
    given = parameters(*words)
    assert given["model"] == "vectors"
    named = {"lds.n_states": given["n_states"], "lds.output": given["model_output"]}
    members = _make_embedders("vectors", options_of(given["settings"], **named), None)
    return [(model.name, settings_of(model)) for model, _ in members]


def settings_of(model):
    return {k: v for k, v in model.settings.to_dict().items() if k not in ("seed", "threads")}


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Model, vocabulary and settings of the models behind the figures of docs/spacy-pipelines.md, by name."""
    asked, rows = [], []

    def fitted(row, *_):
        rows.append(row)
        return word_models.Vectors(None, None, {}, None, "", model=Mock())

    class Recorder(Corpus):
        @classmethod
        def from_text(cls, _, **given):
            chosen = {"tokenizer": "whitespace", **vars(Selection()), **given}
            asked.append({name: chosen[name] for name in VOCABULARY})

    for module in (text, word_models):
        monkeypatch.setattr(module, "Corpus", Recorder)
    monkeypatch.setattr("benchmarks.kept.place", lambda: tmp_path)
    monkeypatch.setattr(word_models, "fitted", fitted)
    text.corpus()
    pipelines.words.__wrapped__()
    [row] = rows
    settings = {"width": word_models.WIDTH, **row.settings}
    words = plugins.make("embedders", row.kind.lower(), settings)
    lds = plugins.make("embedders", "lds", models.VARIANTS["em"])
    return [
        (model.name, vocabulary, settings_of(model))
        for model, vocabulary in zip((lds, words), asked, strict=True)
    ]


def contains(whole, part):
    """Return whether a configuration says all that another one says."""
    if isinstance(part, dict):
        return all(name in whole and contains(whole[name], part[name]) for name in part)
    return whole == part


def test_the_recommended_pipeline_is_made_of_the_models_that_were_measured(measured):
    page = ROOT / "docs" / "spacy-pipelines.md"
    both, config, *more = commands(page)
    english = [each for each in more if "--language" not in each]
    lds, words = (each for each in english if each[1] == "fit")
    assert [told(lds), told(words)] == measured
    fitted = told_of_both(both)
    assert [(name, settings) for name, _, settings in measured] == fitted

    from tacenda_embeddings.spacy.configuration import pipeline_config

    given = parameters(*config)
    written = pipeline_config(
        given["pipeline"].split(","),
        given["lds"],
        vectors=given["vectors"],
        cnn_layers=given["cnn_layers"],
        shared=given["shared"],
        output=given["model_output"],
    )["components"]
    row = pipelines.ROWS[pipelines.RECOMMENDED]
    assert contains(written["tok2vec"]["model"], row.tok2vec("lds"))
    assert written["lds_embeddings"]["output"] == row.output


def test_no_page_with_a_measured_table_fits_a_smaller_example():
    found = []
    for page in PAGES:
        fits = [words for words in commands(page) if words[1] == "fit"]
        if fits and re.search("^<!-- table:", page.read_text(encoding="utf8"), re.MULTILINE):
            found.append(str(page.relative_to(ROOT)))
    assert not found, "the tables of these pages belong in docs/results"
