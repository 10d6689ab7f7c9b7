"""What the documentation shows works: Python blocks, commands and configurations, on a small text.

The blocks of a page run in order, in one namespace and one folder that holds two texts, ``text.txt`` to fit to and
``new.txt`` to score. Only the number of states is changed, because the text is small. A block that begins with the path
of a file is written there, so that later blocks can import it.
"""

import configparser
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
import spacy
from spacy.cli.init_config import fill_config
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin
from thinc.api import Config
from typer.testing import CliRunner

import tacenda
from tacenda import plugins
from tacenda.cli.main import app
from tacenda.datasets import synthetic_text
from tacenda_embeddings import LDS

ROOT = Path(__file__).parents[1]
FOLDERS = (".", "docs", "docs/results", "packages/*")
PAGES = sorted(page for folder in FOLDERS for page in ROOT.glob(f"{folder}/*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Pages that need an optional package, and which.
NEEDS = {"scale.md": "distributed"}
STATES = {
    "n_states=200": "n_states=12",
    "n_states=50": "n_states=12",
    "--n-states 50": "--n-states 12",
}


def in_order(page):
    """The language and the text of the page's blocks, with as many empty lines before as in the page."""
    text = page.read_text(encoding="utf8")
    for match in BLOCK.finditer(text):
        yield match[1], "\n" * (text[: match.start()].count("\n") + 1) + match[2]


def blocks(page, language):
    return [block for found, block in in_order(page) if found == language]


def having(language):
    return [
        pytest.param(page, id=str(page.relative_to(ROOT)))
        for page in PAGES
        if any(blocks(page, language))
    ]


def small(text):
    for large, little in STATES.items():
        text = text.replace(large, little)
    return text


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, n, seed in (("text.txt", 1500, 5), ("new.txt", 150, 6)):
        sentences = synthetic_text.generate(n, seed=seed)
        lines = [" ".join(sentence.words) for sentence in sentences]
        (tmp_path / name).write_text("\n".join(lines), encoding="utf8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TACENDA_DATA", raising=False)
    monkeypatch.setenv("TACENDA_CACHE", str(tmp_path / "cache"))
    before = {(r.kind, r.name, r.distribution) for r in plugins.available()}
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_package"]:
        del sys.modules[name]
    for record in plugins.available():
        if (record.kind, record.name, record.distribution) not in before:
            plugins.unregister(record.kind, record.name, distribution=record.distribution)


@pytest.mark.parametrize("page", having("python"))
def test_python_blocks_run(page, folder, package_of, monkeypatch):
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    (folder / "package").mkdir()
    package_of(page, folder / "package")
    for metadata in folder.glob("package/src/*.dist-info"):
        shutil.rmtree(metadata)  # here the blocks register what they use
    monkeypatch.syspath_prepend(folder / "package" / "src")
    names = {"__name__": "documentation"}
    for language, block in in_order(page):
        if language == "console":
            run_commands(block)
        elif language == "python" and not block.lstrip().startswith(("# src/", "# tests/")):
            exec(compile(small(block), str(page), "exec"), names)


def test_commands_run(folder):
    """Those of the pages without Python blocks; the others are run with them."""
    pages = {parameter.values[0] for parameter in having("console")}
    for page in pages - {parameter.values[0] for parameter in having("python")}:
        for block in blocks(page, "console"):
            run_commands(block)


def run_commands(block):
    for line in block.splitlines():
        if line.startswith("$ "):
            program, *arguments = shlex.split(small(line[2:]))
            assert program == "tacenda"
            done = CliRunner().invoke(app, arguments)
            assert done.exit_code == 0, line + done.output


@pytest.mark.parametrize("page", having("ini"))
def test_configurations_make_a_pipeline(page):
    """A whole one as it is; a piece of one in a pipeline with a tagger."""
    for text in blocks(page, "ini"):
        parsed = configparser.ConfigParser(interpolation=None)
        parsed.read_string(text)
        if not parsed.has_section("nlp"):
            text = (
                '[nlp]\nlang = "en"\npipeline = ["lds_embeddings","tagger"]\n[components]\n'
                '[components.lds_embeddings]\nfactory = "lds_embeddings"\n'
                '[components.tagger]\nfactory = "tagger"\n'
                '[components.tagger.model]\n@architectures = "spacy.Tagger.v2"\n' + text
            )
        nlp = spacy.util.load_model_from_config(Config().from_str(text), auto_fill=True)
        assert nlp.pipe_names == ["lds_embeddings", "tagger"]
        assert nlp.get_pipe("tagger").model.get_ref("tok2vec").name == "concat_embed"


def test_the_whole_configuration_trains(folder):
    """As the page says: spaCy fills it up and trains a tagger that can be loaded."""
    page = ROOT / "docs" / "getting-started.md"
    [text] = blocks(page, "ini")
    (folder / "base.cfg").write_text(text.strip(), encoding="utf8")
    corpus = tacenda.Corpus.from_text(folder / "text.txt", max_vocabulary=500)
    LDS(n_states=6).fit(corpus).save("my-lds")
    blank = spacy.blank("en")
    for part, seed in (("train", 1), ("dev", 2)):
        docs = DocBin()
        for sentence in synthetic_text.generate(20, seed=seed):
            docs.add(Doc(blank.vocab, words=list(sentence.words), tags=list(sentence.tags)))
        docs.to_disk(folder / f"{part}.spacy")
    fill_config(folder / "config.cfg", folder / "base.cfg", silent=True)
    train("config.cfg", "trained", overrides={"training.max_steps": 3})
    shutil.rmtree("my-lds")  # the trained pipeline has the model inside
    tagger = spacy.load(folder / "trained" / "model-last")
    assert all(token.tag_ for token in tagger("Any words will do ."))


def test_no_line_of_prose_begins_with_a_comment():
    """Markdown takes such a line for HTML: it ends the paragraph, and links on the line are not made."""
    for page in PAGES:
        for line in page.read_text(encoding="utf8").splitlines():
            assert not re.match(r" *<!--.*-->\s*\S", line), f"{page.name}: {line:.80}"


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
