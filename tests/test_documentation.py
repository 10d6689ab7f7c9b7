"""What the documentation shows works: Python blocks, commands and configurations, on a small text.

The blocks of a page run in order, in one namespace and one folder that holds the files of ``examples/text``:
``text.txt`` to fit to, ``new.txt`` to score, and labeled sentences; and the file ``ratings.csv`` that docs/ratings.md
makes. What a block prints is what the block of text behind it shows; ``make outputs`` writes these. A block that begins
with the path of a file is written there, so that later blocks can import it.
"""

import configparser
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import spacy
from spacy.cli.train import train

import tacenda
from support.pages import PAGES, ROOT, agree, read_blocks, run_command, run_page, write_outputs
from tacenda import plugins
from tacenda_embeddings import LDS

TEXTS = ROOT / "examples" / "text"
#: Pages that need an optional package, and which.
NEEDS = {"scale.md": "distributed"}


def blocks(page, language):
    return [block.code for block in read_blocks(page) if block.language == language]


def command_with(words, page):
    """The only command of the page that contains some words."""
    code = "\n".join(blocks(page, "console")).replace("\\\n", " ")
    [command] = [line.removeprefix("$ ") for line in code.splitlines() if words in line]
    return command


def having(*languages):
    return [
        pytest.param(page, id=str(page.relative_to(ROOT)))
        for page in PAGES
        if any(blocks(page, language) for language in languages)
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for text in (*TEXTS.glob("*.txt"), *TEXTS.glob("*.conllu")):
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
        return
    wrong = [(block, printed) for block, printed in runs if not agree(block.output, printed)]
    assert not wrong, "`make outputs` writes what the page should show: " + "".join(
        f"\n{page.name}: {block.code.strip()}\n{printed or '(nothing)'}" for block, printed in wrong
    )


def test_pieces_of_a_configuration_are_what_the_command_writes(folder):
    page = ROOT / "docs" / "spacy-pipelines.md"
    command = command_with("init-config config.cfg", page)
    run_command(command.replace("tagger,parser,ner", "tagger,parser,ner,textcat"))
    written = settings_of(Path("config.cfg").read_text(encoding="utf8"))
    text = page.read_text(encoding="utf8")
    section = text.partition("\n## What the configuration contains\n")[2].partition("\n## ")[0]
    pieces = [piece for piece in blocks(page, "cfg") if piece.strip() in section]
    assert len(pieces) >= 3
    for piece in pieces:
        assert settings_of(piece).items() <= written.items()


def settings_of(config):
    """The values of a configuration by section and name; a value in braces is a section of its own."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(config)
    found = {}
    for section in parser.sections():
        for name, value in parser[section].items():
            within = json.loads(value) if value.startswith("{") else {"": value}
            for inner, each in within.items():
                text = each if inner == "" else json.dumps(each)
                found[f"{section}.{name}.{inner}".strip(".")] = text.replace(" ", "")
    return found


def test_a_trained_pipeline_needs_no_folder_of_a_model(folder):
    """As the page says: the configuration trains a tagger that can be loaded without the model that it was given."""
    page = ROOT / "docs" / "getting-started.md"
    command = command_with("init-config", page)
    corpus = tacenda.Corpus.from_text(folder / "text.txt", tokenizer="words", max_vocabulary=500)
    LDS(n_states=6).fit(corpus).save("my-lds")
    run_command(command.replace("en-lds-small", "my-lds"))
    for part in ("train", "dev"):
        run_command(f"python -m spacy convert {part}.conllu .")
    paths = {"paths.train": "train.spacy", "paths.dev": "dev.spacy", "training.max_steps": 3}
    train("config.cfg", "trained", overrides=paths)
    shutil.rmtree("my-lds")
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
