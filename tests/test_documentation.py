"""What the documentation shows works: Python blocks, commands and configurations, on a small text.

The blocks of a page run in order, in one namespace and one folder that holds the two texts of ``examples/text``:
``text.txt`` to fit to and ``new.txt`` to score, and the file ``ratings.csv`` that docs/ratings.md makes. What a block
prints is what the block of text behind it shows; ``make outputs`` writes these. A block that begins with the path of a
file is written there, so that later blocks can import it.
"""

import configparser
import re
import shutil
import sys
from pathlib import Path

import pytest
import spacy
from spacy.cli.init_config import fill_config
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin
from thinc.api import Config

import tacenda
from support.pages import agree, read_blocks, run_page, write_outputs
from tacenda import plugins
from tacenda.datasets import synthetic_text
from tacenda_embeddings import LDS

ROOT = Path(__file__).parents[1]
TEXTS = ROOT / "examples" / "text"
FOLDERS = (".", "docs", "docs/results", "packages/*")
PAGES = sorted(page for folder in FOLDERS for page in ROOT.glob(f"{folder}/*.md"))
#: Pages that need an optional package, and which.
NEEDS = {"scale.md": "distributed"}


def blocks(page, language):
    return [block.code for block in read_blocks(page) if block.language == language]


def having(*languages):
    return [
        pytest.param(page, id=str(page.relative_to(ROOT)))
        for page in PAGES
        if any(blocks(page, language) for language in languages)
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for text in TEXTS.glob("*.txt"):
        shutil.copy(text, tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(blocks(ROOT / "docs" / "ratings.md", "python")[0], {})  # writes ratings.csv
    monkeypatch.delenv("TACENDA_DATA", raising=False)
    monkeypatch.setenv("TACENDA_CACHE", str(tmp_path / "cache"))
    before = {(r.kind, r.name, r.distribution) for r in plugins.available()}
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_package"]:
        del sys.modules[name]
    for record in plugins.available():
        if (record.kind, record.name, record.distribution) not in before:
            plugins.unregister(record.kind, record.name, distribution=record.distribution)


@pytest.mark.parametrize("page", having("python", "console"))
def test_pages_show_what_their_code_prints(page, folder, package_of, monkeypatch, request):
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    (folder / "package").mkdir()
    package_of(page, folder / "package")
    for metadata in folder.glob("package/src/*.dist-info"):
        shutil.rmtree(metadata)  # here the blocks register what they use
    monkeypatch.syspath_prepend(folder / "package" / "src")
    runs = list(run_page(page, {"__name__": "documentation"}))
    if request.config.getoption("--write-outputs"):
        write_outputs(page, runs)
    elif any(block.output for block, _ in runs):
        wrong = [(block, printed) for block, printed in runs if not agree(block.output, printed)]
        assert not wrong, "`make outputs` writes what the page should show: " + "".join(
            f"\n{page.name}: {block.code.strip()}\n{printed or '(nothing)'}"
            for block, printed in wrong
        )


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
