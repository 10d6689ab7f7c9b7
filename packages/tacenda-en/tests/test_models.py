"""The models of this package are found by name, are small, carry no more than they name, and do what they say."""

import json
from pathlib import Path

import numpy as np
import pytest

import tacenda
from tacenda.artifact import by_name

README = Path(__file__).parents[1] / "README.md"
MODELS = {found.name: found for found in by_name.available() if found.distribution == "tacenda-en"}


def test_there_are_three_under_the_license_of_their_text():
    assert sorted(MODELS) == ["en-lds-small", "en-ngrams-small", "en-words-small"]
    assert {found.license for found in MODELS.values()} == {"CC-BY-SA-3.0"}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_folder_holds_its_model_and_its_card_and_nothing_else(name):
    folder = MODELS[name].folder
    manifest = json.loads((folder / "model.json").read_text(encoding="utf8"))
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["README.md", "model.json", *manifest["files"]]
    )
    assert "training part" in manifest["fitted_on"]["text"]


def test_all_are_ten_megabytes_at_most():
    sizes = [path.stat().st_size for found in MODELS.values() for path in found.folder.iterdir()]
    assert sum(sizes) < 10e6


def test_each_is_listed_with_what_it_is():
    for name, words in (
        ("lds", "linear dynamical"),
        ("words", "morphemes"),
        ("ngrams", "Trigrams"),
    ):
        assert words in MODELS[f"en-{name}-small"].summary


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_readme_has_the_figures_of_the_model(name):
    _, _, rest = README.read_text(encoding="utf8").partition(f"## {name} ")
    card, _, _ = rest.partition("\n## en-")
    figures = tacenda.artifact.read(MODELS[name].folder).figures
    assert figures
    for figure in figures:
        assert f"| {figure['measure']} | {figure['value']} |" in card


def test_a_word_has_other_vectors_in_other_contexts():
    model = tacenda.load("en-lds-small").with_output("mean")
    texts = (
        "She saw the house .",
        "She heard the song .",
        "She bought a saw .",
        "She bought a hammer .",
    )
    rows = model.transform([text.split() for text in texts])
    verb, heard, noun, hammer = rows[0][1], rows[1][1], rows[2][3], rows[3][3]

    def cosine(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    assert cosine(verb, heard) > cosine(verb, noun) + 0.2
    assert cosine(noun, hammer) > cosine(verb, hammer) + 0.2


def test_a_word_is_nearest_to_words_like_it():
    from tacenda_embeddings.text_vectors import nearest_words

    near = {word for word, _ in nearest_words(tacenda.load("en-words-small"), "violin", 10)}
    assert near & {"cello", "piano", "viola", "violins", "concerto"}


def test_frequent_continuations_surprise_less():
    pytest.importorskip("tacenda_lm", reason="the n-grams need tacenda-en[lm]")
    lm = tacenda.load("en-ngrams-small")
    usual, odd = (lm.surprisal(text.split()) for text in ("one of the most", "one of the green"))
    assert usual[3] + 3 < odd[3]
