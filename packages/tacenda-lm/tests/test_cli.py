"""``tacenda lm``: fit, score, perplexity, generate and mix, and what a mistake looks like."""

import json

import pytest

import tacenda
from tacenda.testing.samples import sample_sentences
from tacenda_lm import HLBL, KneserNey, Mixture

TEXT = sample_sentences(120)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(map(" ".join, TEXT)) + "\n", encoding="utf8")
    return path


@pytest.fixture
def valid(tmp_path):
    path = tmp_path / "valid.txt"
    lines = [*map(" ".join, sample_sentences(20, seed=1)), "zebra a0"]
    path.write_text("\n".join(lines) + "\n", encoding="utf8")
    return path


@pytest.fixture
def saved(tmp_path):
    KneserNey(order=3).fit(TEXT).save(tmp_path / "saved")
    return tmp_path / "saved"


def test_fit_saves_a_model_with_its_figures(run, text, valid, tmp_path):
    status, out, err = run(
        "fit", "--text", text, "--valid", valid, "--output", tmp_path / "m", "--order", 2,
        "--set", "smoothing=backoff",
    )  # fmt: skip
    assert (status, out) == (0, "")
    assert "perplexity of the validation text" in err
    model = tacenda.load(tmp_path / "m")
    assert (model.order, model.settings.smoothing) == (2, "backoff")
    assert model.fitted_on["sources"] == ["text.txt"]
    assert model.figures[0]["value"] == pytest.approx(model.perplexity(valid))
    assert str(tmp_path) not in (tmp_path / "m" / "model.json").read_text(encoding="utf8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "nobody"], "nobody"),
        (["--set", "ordr=3"], "ordr"),
        (["--set", "advanced.order=3"], "advanced"),
        (["--checkpoints", "folder"], "checkpoints"),
        (["--order", "99"], "order"),
        (["--tokenizer", "nonsense"], "nonsense"),
        (["--text", "nowhere.txt"], "nowhere.txt"),
        (["--valid", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_mistake_in_fit_is_one_line_and_status_1(run, text, tmp_path, arguments, message):
    status, out, err = run("fit", "--text", text, "--output", tmp_path / "m", *arguments)
    assert (status, out) == (1, "")
    assert message in err.splitlines()[-1]
    assert "Traceback" not in err
    assert not (tmp_path / "m").exists()


def test_fit_takes_advanced_options_and_keeps_checkpoints(run, text, tmp_path):
    small = ("--set", "width=4", "--set", "epochs=1", "--set", "advanced.tied=false")
    status, _, _ = run(
        "fit", "--model", "lbl", "--text", text, "--output", tmp_path / "m", *small,
        "--checkpoints", tmp_path / "progress",
    )  # fmt: skip
    assert status == 0
    assert (tmp_path / "progress" / "checkpoint.json").exists()
    model = tacenda.load(tmp_path / "m")
    assert (model.settings.width, model.settings.advanced.tied) == (4, False)


def test_perplexity_is_shown_with_what_it_counts(run, saved, valid):
    found = tacenda.load(saved).perplexity(valid)
    status, out, _ = run("perplexity", saved, valid)
    assert status == 0
    assert "1 of them outside the vocabulary" in out
    for value in (found, found.without_oov, found.without_eos, found.bits_per_character):
        assert f"{value:.4f}" in out
    status, out, _ = run("perplexity", saved, valid, "--json")
    assert json.loads(out)["value"] == pytest.approx(found)


def test_score_prints_a_line_for_every_line(run, saved, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("a0 b0\n\nzebra\n", encoding="utf8")
    model = tacenda.load(saved)
    status, out, _ = run("score", saved, path)
    rows = [line.split("\t") for line in out.splitlines()]
    assert status == 0
    assert [sentence for _, sentence in rows] == ["a0 b0", "", "zebra"]
    for score, sentence in rows:
        assert float(score) == pytest.approx(model.score(sentence), rel=1e-4)


def test_score_of_words_is_their_surprisal(run, saved, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("a0 b0\n\nzebra\n", encoding="utf8")
    _, out, _ = run("score", saved, path, "--words")
    rows = [line.split("\t") for line in out.splitlines()]
    assert [row[0] for row in rows] == ["a0", "b0", "</s>", "", "</s>", "", "zebra", "</s>", ""]
    bits = tacenda.load(saved).surprisal("a0 b0")
    assert [float(row[1]) for row in rows[:2]] == pytest.approx(bits, abs=1e-3)


def test_generate_repeats_with_its_seed(run, saved):
    first = run("generate", saved, "--context", "a0", "-n", 4, "--seed", 3)
    assert first == run("generate", saved, "--context", "a0", "-n", 4, "--seed", 3)
    lines = first[1].splitlines()
    assert len(lines) == 4
    assert all(line.startswith("a0") for line in lines)
    _, out, _ = run("generate", saved, "--beam", 5, "-n", 2, "--json")
    best, second = json.loads(out)
    assert best["log_prob"] >= second["log_prob"]


def test_mix_fits_weights_and_saves_a_mixture(run, saved, valid, tmp_path):
    KneserNey(order=1).fit(TEXT).save(tmp_path / "unigrams")
    status, out, _ = run(
        "mix", saved, tmp_path / "unigrams", "--valid", valid, "--output", tmp_path / "mixed"
    )
    mixture = tacenda.load(tmp_path / "mixed")
    assert status == 0
    assert isinstance(mixture, Mixture)
    assert set(mixture.weights) == {"saved", "unigrams"}
    assert [line.split()[1] for line in out.splitlines()] == list(mixture.weights)
    assert mixture.figures[0]["value"] <= tacenda.load(saved).perplexity(valid)
    run("mix", saved, saved, "--weights", "1,3", "--output", tmp_path / "fixed")
    assert tacenda.load(tmp_path / "fixed").weights == {"model-0": 0.25, "model-1": 0.75}


@pytest.mark.parametrize(
    "arguments",
    [["fit"], ["perplexity"], ["mix", "a", "--output", "b", "--weights", "x"], ["no-such"],
     ["mix", "a", "--output", "b", "--weights", "1", "--valid", "f"]],
)  # fmt: skip
def test_wrong_usage_is_status_2(run, arguments):
    assert run(*arguments)[0] == 2


def test_what_is_missing_is_named(run, saved, text, tmp_path):
    for arguments, name in (
        (["perplexity", tmp_path / "none", text], "none"),
        (["perplexity", saved, "nowhere.txt"], "nowhere.txt"),
        (["score", saved, tmp_path], "directory"),
        (["generate", text], "text.txt"),
        (["mix", saved, saved, "--weights", "1,2,3", "--output", tmp_path / "x"], "weights"),
        (["mix", saved, "--output", text], "text.txt"),
    ):
        status, _, err = run(*arguments)
        assert status == 1, arguments
        assert name in err
        assert err.count("\n") == 1


def test_perplexity_of_a_stream(run, text, valid, tmp_path):
    """A log-bilinear model looks beyond the end of a sentence: the two contexts differ, and are named."""
    advanced = {"bootstrap_width": 8, "bootstrap_epochs": 1}
    HLBL(width=8, copies=1, epochs=1, advanced=advanced).fit(text).save(tmp_path / "hlbl")
    found = {}
    for context in ("sentence", "stream"):
        status, out, _ = run("perplexity", tmp_path / "hlbl", valid, "--context", context, "--json")
        assert status == 0
        found[context] = json.loads(out)
        assert found[context]["context"] == context
    assert found["sentence"]["value"] != found["stream"]["value"]
    status, _, err = run("perplexity", tmp_path / "hlbl", valid, "--context", "paragraph")
    assert status == 1
    assert "paragraph" in err
    assert "Traceback" not in err


def test_a_tokenizer_that_is_not_kept_has_to_be_named(run, text, valid, tmp_path):
    corpus = tacenda.Corpus.from_text(text, tokenizer=str.split)
    KneserNey(order=2).fit(corpus).save(tmp_path / "own")
    status, _, err = run("perplexity", tmp_path / "own", valid)
    assert status != 0
    assert "--tokenizer" in err
    assert "Traceback" not in err
    status, out, _ = run("perplexity", tmp_path / "own", valid, "--tokenizer", "whitespace")
    assert status == 0
    assert "perplexity" in out
