"""``tacenda embed`` with varembed: fit, resume, apply, neighbours, morphemes, export, vectors; mistakes."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="fitting needs torch (tacenda-embeddings[varembed])")

import tacenda

pytestmark = pytest.mark.usefixtures("spacy_entry_points")
SMALL = [
    "--set", "width=6", "--set", "epochs=1", "--set", "advanced.hidden=6",
    "--set", "advanced.negatives=16", "--set", "advanced.n_morphemes=60",
]  # fmt: skip


@pytest.fixture
def text(texts, write_file):
    return write_file("text.txt", "\n".join(map(" ".join, texts[:60])))


@pytest.fixture
def saved(varembed, tmp_path):
    varembed.save(tmp_path / "saved")
    return tmp_path / "saved"


def test_fit_goes_on_from_checkpoints_and_minds_held_out_text(run, text, tmp_path):
    arguments = [
        "fit", "--model", "varembed", "--text", text, "--valid", text,
        "--checkpoints", tmp_path / "c", *SMALL,
    ]  # fmt: skip
    run.well(*arguments, "-o", tmp_path / "one")
    assert (tmp_path / "c" / "checkpoint.json").exists()
    run.well(*arguments, "-o", tmp_path / "two")
    one, two = tacenda.load(tmp_path / "one"), tacenda.load(tmp_path / "two")
    assert one.figures == two.figures
    assert one.figures[0]["protocol"].startswith("held-out text")


def test_morphemes_shows_pieces_and_uncertainty(run, saved, varembed):
    words = varembed.vocabulary.words[9], "unbefriended", "中文"
    out, _ = run.well("morphemes", saved, *words)
    lines = [line.split("\t") for line in out.splitlines()]
    assert [line[1] for line in lines] == ["seen", "unseen", "unseen"]
    assert all(0 <= float(line[2]) <= 1 for line in lines)
    assert lines[2][3].startswith("[")


def test_neighbours_of_an_unseen_word_says_what_it_is_made_of(run, saved):
    out, err = run.well("neighbours", saved, "unbefriended", "--words", 3)
    assert len(out.splitlines()) == 3
    assert "is not in the vocabulary: its vector is made of" in err


def test_export_writes_words_that_were_never_seen_too(run, saved, write_file, tmp_path):
    more = write_file("more.txt", "unbefriended\n\n")
    run.well("export", saved, tmp_path / "v.txt", "--words", more)
    assert "unbefriended " in (tmp_path / "v.txt").read_text(encoding="utf8")
    run.well("export", saved, tmp_path / "raw.txt", "--raw")
    first, raw = (
        (tmp_path / name).read_text(encoding="utf8").splitlines()[1]
        for name in ("v.txt", "raw.txt")
    )
    assert first.split(" ")[0] == raw.split(" ")[0]
    assert first != raw


def test_vectors_makes_a_pipeline(run, saved, varembed, tmp_path):
    import spacy

    run.well("vectors", saved, tmp_path / "p")
    found = spacy.load(tmp_path / "p")("unbefriended").vector
    np.testing.assert_array_equal(found, varembed.scaled_vectors(["unbefriended"])[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "--model", "varembed", "--set", "segmenter=x"], "segmenter must be one of"),
        (["fit", "--model", "lds", "--checkpoints", "c"], "not trained in steps"),
        (["fit", "--model", "lds", "--valid", "text.txt"], "not trained in steps"),
        (["fit", "--model", "sumembed", "--valid", "text.txt"], "not trained in steps"),
        (["fit", "--model", "sumembed", "--set", "epochs=1"], "no longer has the option epochs"),
    ],
)
def test_mistake_in_fit_is_one_line(run, text, tmp_path, arguments, message):
    assert message in run.refusal(*arguments, "--text", text, "-o", tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_models_without_morphemes_and_unknown_languages_are_one_line(run, toy, saved, tmp_path):
    toy.save(tmp_path / "toy")
    for arguments, message in (
        (["morphemes", tmp_path / "toy", "cat"], "not built from morphemes"),
        (["export", tmp_path / "toy", tmp_path / "v"], "not built from morphemes"),
        (["vectors", saved, tmp_path / "p", "--language", "zz"], "zz"),
        (["export", saved, tmp_path / "no" / "v.txt"], "cannot write"),
    ):
        assert message in run.refusal(*arguments)
