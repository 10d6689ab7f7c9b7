"""``tacenda embed`` with varembed: fit, resume, apply, neighbours, morphemes, export, vectors; mistakes."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="fitting needs torch (tacenda-embeddings[varembed])")

import tacenda

pytestmark = pytest.mark.usefixtures("spacy_entry_points")
SMALL = [
    "width=6",
    "epochs=1",
    "advanced.hidden=6",
    "advanced.negatives=16",
    "advanced.n_morphemes=60",
]


@pytest.fixture
def text(texts, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(map(" ".join, texts[:60])), encoding="utf8")
    return path


@pytest.fixture
def saved(varembed, tmp_path):
    varembed.save(tmp_path / "saved")
    return tmp_path / "saved"


def small():
    return [part for each in SMALL for part in ("--set", each)]


def test_fit_apply_and_look_inside(run, text, tmp_path):
    folder = tmp_path / "model"
    status, out, err = run("fit", "--model", "varembed", "--text", text, "-o", folder, *small())
    assert (status, out) == (0, ""), err
    assert "varembed, 6 columns" in err
    status, out, err = run("apply", folder, text, "-o", tmp_path / "v.npz")
    assert status == 0, err
    assert np.load(tmp_path / "v.npz")["vectors"].shape[1] == 6
    assert tacenda.load(folder).fitted_on["sources"] == ["text.txt"]


def test_fit_goes_on_from_checkpoints_and_minds_held_out_text(run, text, tmp_path):
    arguments = [
        "fit", "--model", "varembed", "--text", text, "--valid", text,
        "--checkpoints", tmp_path / "c", *small(),
    ]  # fmt: skip
    status, _, err = run(*arguments, "-o", tmp_path / "one")
    assert status == 0, err
    assert (tmp_path / "c" / "checkpoint.json").exists()
    status, _, err = run(*arguments, "-o", tmp_path / "two")
    assert status == 0, err
    one, two = tacenda.load(tmp_path / "one"), tacenda.load(tmp_path / "two")
    assert one.figures == two.figures
    assert one.figures[0]["protocol"].startswith("held-out text")


def test_morphemes_shows_pieces_and_uncertainty(run, saved, varembed):
    status, out, _ = run("morphemes", saved, varembed.vocabulary.words[9], "unbefriended", "中文")
    assert status == 0
    lines = [line.split("\t") for line in out.splitlines()]
    assert [line[1] for line in lines] == ["seen", "unseen", "unseen"]
    assert all(0 <= float(line[2]) <= 1 for line in lines)
    assert lines[2][3].startswith("[")


def test_neighbours_of_an_unseen_word_says_what_it_is_made_of(run, saved):
    status, out, err = run("neighbours", saved, "unbefriended", "--words", 3)
    assert status == 0
    assert len(out.splitlines()) == 3
    assert "is not in the vocabulary: its vector is made of" in err


def test_export_writes_words_that_were_never_seen_too(run, saved, tmp_path):
    (tmp_path / "more.txt").write_text("unbefriended\n\n", encoding="utf8")
    status, _, err = run("export", saved, tmp_path / "v.txt", "--words", tmp_path / "more.txt")
    assert status == 0, err
    assert "unbefriended " in (tmp_path / "v.txt").read_text(encoding="utf8")
    status, _, err = run("export", saved, tmp_path / "raw.txt", "--raw")
    assert status == 0, err
    first, raw = (
        (tmp_path / name).read_text(encoding="utf8").splitlines()[1]
        for name in ("v.txt", "raw.txt")
    )
    assert first.split(" ")[0] == raw.split(" ")[0]
    assert first != raw


def test_vectors_makes_a_pipeline(run, saved, varembed, tmp_path):
    import spacy

    status, _, err = run("vectors", saved, tmp_path / "p")
    assert status == 0, err
    found = spacy.load(tmp_path / "p")("unbefriended").vector
    np.testing.assert_array_equal(found, varembed.scaled_vectors(["unbefriended"])[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["fit", "--model", "varembed", "--set", "segmenter=syllables"],
            "segmenter must be one of",
        ),
        (["fit", "--model", "lds", "--checkpoints", "c"], "not trained in steps"),
        (["fit", "--model", "lds", "--valid", "text.txt"], "not trained in steps"),
        (["fit", "--model", "sumembed", "--valid", "text.txt"], "not trained in steps"),
        (["fit", "--model", "sumembed", "--set", "epochs=1"], "no longer has the option epochs"),
    ],
)
def test_mistake_in_fit_is_one_line(run, text, tmp_path, arguments, message):
    status, _, err = run(*arguments, "--text", text, "-o", tmp_path / "m")
    assert status == 1
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "m").exists()


def test_models_without_morphemes_and_unknown_languages_are_one_line(run, toy, saved, tmp_path):
    toy.save(tmp_path / "toy")
    for arguments, message in (
        (["morphemes", tmp_path / "toy", "cat"], "not built from morphemes"),
        (["export", tmp_path / "toy", tmp_path / "v"], "not built from morphemes"),
        (["vectors", saved, tmp_path / "p", "--language", "zz"], "zz"),
        (["export", saved, tmp_path / "no" / "v.txt"], "cannot write"),
    ):
        status, _, err = run(*arguments)
        assert status == 1
        assert err.count("\n") == 1
        assert message in err
