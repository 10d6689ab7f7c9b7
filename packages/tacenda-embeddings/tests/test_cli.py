"""``tacenda embed``: fit, apply, pairs and neighbours, and what a mistake looks like."""

import json

import numpy as np
import pytest

import tacenda
from tacenda import Corpus
from tacenda.datasets import synthetic_text
from tacenda_embeddings import SumEmbed

LINES = ["The cat saw a dog .", "", "A bird ate the mouse ."] * 3


@pytest.fixture
def text(write_file):
    return write_file("text.txt", "\n".join(LINES) + "\n")


@pytest.fixture
def saved(toy, tmp_path):
    toy.save(tmp_path / "saved")
    return tmp_path / "saved"


def test_fit_saves_a_model_that_knows_its_text(run, text, tmp_path):
    out, err = run.well(
        "fit", "--model", "toy", "--text", text, "--output", tmp_path / "model",
        "--n-states", 3, "--set", "seed=7", "--oov", "single", "--max-vocabulary", 6, "--precision", "int8",
    )  # fmt: skip
    assert out == ""
    assert "no tables to round to int8" in err
    assert "36 tokens in 6 sentences" in err
    model = tacenda.load(tmp_path / "model")
    assert model.width == 6
    assert model.fitted_on["tokenizer"] == "whitespace"
    assert model.fitted_on["sources"] == ["text.txt"]
    assert str(tmp_path) not in (tmp_path / "model" / "model.json").read_text(encoding="utf8")


def test_fit_reads_json_lines_and_says_where_a_text_is_of_another_kind(run, write_file, tmp_path):
    text = "\n".join(json.dumps({"text": line, "body": "a b"}) for line in LINES)
    named, unnamed = write_file("t.jsonl", text), write_file("t.txt", text)
    plain = ["fit", "--model", "toy", "--output", tmp_path / "m", "--force", "--text"]
    for more, n in (
        ([named], 36),
        ([named, "--text-field", "body"], 18),
        ([unnamed, "--text-field", "text"], 36),
    ):
        _, err = run.well(*plain, *more)
        assert "note:" not in err
        assert f"{n} tokens in" in err
    said = "note: the lines are JSON objects, and are read as text: --text-field text"
    assert said in run.well(*plain, unnamed)[1]
    err = run.refusal(*plain, named, "--text-field", "title")
    assert "t.jsonl, line 1: the object has no field 'title'" in err
    assert "such as --text-field text" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "nobody"], "nobody"),
        (["--set", "n_stats=3"], "n_stats"),
        (["--tokenizer", "nonsense"], "nonsense"),
        (["--text", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_mistake_in_fit_is_one_line_and_status_1(run, text, tmp_path, arguments, message):
    fit = ("fit", "--model", "toy", "--text", text, "--output", tmp_path / "m")
    assert message in run.refusal(*fit, *arguments)
    assert not (tmp_path / "m").exists()


def test_output_that_cannot_be_saved_to_is_found_before_fitting(run, text, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").touch()
    for output, named in (
        (text, text),
        (text / "model", text),
        (tmp_path / "folder", tmp_path / "folder"),
    ):
        err = run.refusal("fit", "--model", "toy", "--text", text, "--output", output)
        assert f"{named} " in err.replace(":", " ")
        assert "tokens in" not in err


FIT = ["fit", "--text", "a", "--output", "b"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit"], "Missing option"),
        (["apply"], "Missing argument"),
        ([*FIT, "--set", "novalue"], "not novalue"),
        ([*FIT, "--set", "n_states=3", "--n-states", "5"], "sets n_states, which --set has set"),
        (
            [*FIT, "--model", "vectors", "--set", "lds.n_states=3", "--n-states", "5"],
            "sets lds.n_states, which --set has set",
        ),
        (["no-such"], "No such command"),
    ],
)
def test_wrong_usage_is_status_2(run, arguments, message):
    status, _, err = run(*arguments)
    assert (status, message in err) == (2, True), err


def test_apply_prints_a_token_a_line(run, saved, text, toy):
    out, _ = run.well("apply", saved, text, "--tokenizer", "whitespace")
    shown = [line.split("\t")[0] for line in out.split("\n")]
    assert shown == [word for line in LINES for word in [*line.split(), ""]] + [""]
    word, numbers = out.splitlines()[1].split("\t")
    assert word == "cat"
    expected = toy.transform([LINES[0].split()])[0][1]
    np.testing.assert_allclose([float(n) for n in numbers.split()], expected, rtol=1e-4)


def test_apply_writes_arrays_line_by_line(run, saved, text, toy, tmp_path):
    output = tmp_path / "vectors.npz"
    out, err = run.well("apply", saved, text, "--output", output, "--tokenizer", "whitespace")
    assert out == ""
    assert "36 vectors of 9 lines" in err
    with np.load(output) as found:
        offsets, vectors = found["offsets"], found["vectors"]
        tokens = found["tokens"].tobytes().decode("utf8").split("\n")
    assert tokens == " ".join(LINES).split()
    expected = toy.transform([line.split() for line in LINES])
    assert np.diff(offsets).tolist() == list(map(len, expected))
    np.testing.assert_array_equal(vectors, np.concatenate(expected))
    assert {path.name for path in tmp_path.iterdir()} == {"vectors.npz", "saved", "text.txt"}


def test_apply_takes_the_tokenizer_of_the_fit(run, text, tmp_path):
    fitted = tmp_path / "model"
    run("fit", "--model", "toy", "--text", text, "--output", fitted, "--tokenizer", "whitespace")
    (tmp_path / "glued.txt").write_text("The cat's dog.\n", encoding="utf8")
    _, out, _ = run("apply", fitted, tmp_path / "glued.txt")
    assert [line.split("\t")[0] for line in out.splitlines()] == ["The", "cat's", "dog.", ""]


def test_apply_to_an_empty_file_gives_empty_arrays(run, saved, toy, tmp_path):
    (tmp_path / "empty.txt").touch()
    _, err = run.well("apply", saved, tmp_path / "empty.txt", "--output", tmp_path / "v.npz")
    assert "0 vectors of 0 lines" in err
    with np.load(tmp_path / "v.npz") as found:
        assert found["vectors"].shape == (0, toy.width)


@pytest.mark.parametrize(
    ("target", "message"),
    [("nowhere.txt", "nowhere.txt"), (".", "directory"), ("latin.txt", "line 1")],
)
def test_text_that_cannot_be_read_is_named(run, saved, tmp_path, target, message):
    (tmp_path / "latin.txt").write_bytes("Garçon".encode("latin-1"))
    assert message in run.refusal("apply", saved, tmp_path / target)


def test_output_of_another_kind_is_wrong_usage(run, saved, text):
    assert run("apply", saved, text, "--output", "vectors.csv")[0] == 2


def test_pairs_of_a_model_without_a_transition_operator_are_refused(run, saved):
    assert "'toy', which has no transition operator" in run.refusal("pairs", saved)


def test_neighbours_are_sorted_and_leave_the_word_out(run, saved, toy):
    out, err = run.well("neighbours", saved, "cat", "--words", 3)
    assert err == ""
    cosines, words = zip(*(line.split("\t") for line in out.splitlines()), strict=True)
    assert list(cosines) == sorted(cosines, key=float, reverse=True)
    own = dict(zip(toy.vocabulary.words, toy.table, strict=True))
    best = max(
        (w for w in own if w not in ("cat", "<unk>", "</s>")),
        key=lambda w: own[w] @ own["cat"] / np.linalg.norm(own[w]),
    )
    assert words[0] == best


def test_neighbours_of_an_unknown_word_say_what_is_shown(run, saved):
    _, err = run.well("neighbours", saved, "zebra")
    said = "is not in the vocabulary: its vector is that of <unk>, which it shares with other"
    assert err.startswith(f"'zebra' {said}")


def test_neighbours_of_a_word_known_by_its_spelling_are_not_called_those_of_unknown_words(
    run, saved, toy_class, monkeypatch
):
    embed = toy_class.transform

    def spell(self, sentences):
        return embed(self, [["cat"] if s[0] == "zebra" else s for s in sentences])

    monkeypatch.setattr(toy_class, "transform", spell)
    _, err = run.well("neighbours", saved, "zebra")
    assert err == "'zebra' is not in the vocabulary: its vector is made from its spelling\n"


def test_neighbours_of_a_model_without_a_vocabulary_are_one_sentence(
    run, saved, toy_class, monkeypatch
):
    load = tacenda.load

    def load_without(folder):
        model = load(folder)
        assert len(model.__dict__.pop("vocabulary"))
        monkeypatch.setattr(
            model, "transform", lambda sentences: [model._embed([0]) for _ in sentences]
        )
        return model

    monkeypatch.setattr(tacenda, "load", load_without)
    assert "the embedder 'toy' has no vocabulary" in run.refusal("neighbours", saved, "cat")


def test_folder_without_a_model_is_named(run, tmp_path, text):
    assert "none" in run.refusal("apply", tmp_path / "none", text)


def test_nothing_is_overwritten_unless_told_to(run, saved, text, tmp_path):
    fit = ("fit", "--model", "toy", "--text", text, "--output", saved)
    apply = ("apply", saved, text, "--output", tmp_path / "v.npz", "--tokenizer", "whitespace")
    (tmp_path / "v.npz").write_text("mine")
    before = (saved / "model.json").read_bytes()
    for command in (fit, apply):
        assert "--force" in run.refusal(*command)
    assert (saved / "model.json").read_bytes() == before
    assert (tmp_path / "v.npz").read_text() == "mine"
    for command in (fit, apply):
        assert run(*command, "--force")[0] == 0
    assert (tmp_path / "v.npz").read_bytes() != b"mine"


@pytest.fixture
def saved_words(tmp_path):
    sentences = [["a", "b", "c"], ["b", "a"], ["c", "c", "b"]] * 30
    SumEmbed(width=8).fit(Corpus.from_sentences(sentences)).save(tmp_path / "whole")
    return tmp_path / "whole"


def test_compact_saves_a_smaller_model_and_says_what_is_lost(
    run, saved_words, write_file, tmp_path
):
    text = write_file("text.txt", "a b\n\nc b a\n")
    words = tacenda.load(saved_words)
    words.fitted_on = {**words.fitted_on, "tokenizer": "callable"}
    words.save(tmp_path / "own")
    read = ["--text", text]
    for folder, arguments, counted in (
        (saved_words, [], "3 words"),
        (saved_words, read, "5 tokens of the text"),
        (tmp_path / "own", [], "3 words"),
        (tmp_path / "own", [*read, "--tokenizer", "whitespace"], "5 tokens of the text"),
    ):
        compact = ("compact", folder, "--output", tmp_path / "small", "--force")
        out, err = run.well(*compact, *arguments)
        assert err == ""
        assert "MB, now" in out
        assert f"{counted}: mean 0.99" in out or f"{counted}: mean 1.0" in out
    assert tacenda.load(tmp_path / "small").precision == "int8"
    for command in (["compact", tmp_path / "own", *read], ["apply", tmp_path / "own", text]):
        assert "not saved with it: give it, or one that splits" in run.refusal(
            *command, "-o", tmp_path / "x.npz"
        )


@pytest.mark.parametrize("content", [None, b"a \xff b\n", b"\n"])
def test_compact_saves_nothing_if_its_text_cannot_be_read(run, saved_words, tmp_path, content):
    text, small = tmp_path / "held-out.txt", tmp_path / "small"
    if content is not None:
        text.write_bytes(content)
    assert run.refusal("compact", saved_words, "--output", small, "--text", text)
    assert not small.exists()


def test_compact_of_a_model_onto_itself_says_the_size_it_had(run, saved_words):
    size = sum(path.stat().st_size for path in saved_words.rglob("*") if path.is_file())
    out, _ = run.well("compact", saved_words, "--output", saved_words, "--force")
    assert out.startswith(f"{size / 1e6:.1f} MB, now ")


def test_compact_of_an_installed_model_says_its_size(run, saved_words, tmp_path, monkeypatch):
    from tacenda.artifact import by_name

    (saved_words / "more").write_bytes(bytes(5_000_000))
    monkeypatch.setattr(by_name, "locate", lambda name: saved_words)
    load = tacenda.load
    monkeypatch.setattr(tacenda, "load", lambda m: load(saved_words if str(m) == "name" else m))
    out, _ = run.well("compact", "name", "--output", tmp_path / "small")
    assert out.startswith("5.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--precision", "int4"], "int4"),
        ([], "no tables"),
        (["--precision", "float16"], "no tables"),
    ],
)
def test_what_cannot_be_compact_is_one_line(run, saved, tmp_path, arguments, message):
    assert message in run.refusal("compact", saved, "--output", tmp_path / "small", *arguments)


def test_compact_refuses_options_of_a_text_without_one(run, saved, tmp_path):
    status, _, err = run("compact", saved, "--output", tmp_path / "small", "--encoding", "foo")
    assert status == 2
    assert "--encoding has no effect without --text FILE" in " ".join(err.split())


@pytest.fixture
def synthetic(write_file):
    lines = [" ".join(sentence.words) for sentence in synthetic_text.generate(200, seed=1)]
    return write_file("text.txt", "\n".join(lines))


def test_one_command_fits_what_init_config_takes_and_reads_the_text_once(
    run, synthetic, tmp_path, monkeypatch
):
    both = tmp_path / "both"
    read, from_text = [], Corpus.from_text
    monkeypatch.setattr(Corpus, "from_text", lambda *a, **k: read.append(a) or from_text(*a, **k))
    settings = ["--n-states", 4, "--set", "vectors.width=6", "--set", "lds.full_iterations=1"]
    fit = ("fit", "--model", "vectors", "--text", synthetic, "-o", both, *settings)
    out, err = run.well(*fit)
    assert out == ""
    assert len(read) == 1
    assert err.count("CPU seconds") == 3
    lds, words = (tacenda.load(both / part) for part in ("lds", "vectors"))
    assert (lds.name, lds.settings.n_states, lds.settings.full_iterations) == ("lds", 4, 1)
    assert (words.name, words.width) == ("sumembed", 6)
    assert lds.fitted_on["sources"] == words.fitted_on["sources"] == ["text.txt"]
    assert "--force" in run.refusal(*fit)


def test_a_fit_saves_eight_bits_a_number_unless_told_otherwise_and_says_what_that_costs(
    run, synthetic, tmp_path
):
    fit = ("fit", "--model", "sumembed", "--set", "width=6", "--text", synthetic, "--output")
    found = {}
    for precision in (None, "float16", "full"):
        more = ["--precision", precision] if precision else []
        _, err = run.well(*fit, tmp_path / str(precision), *more)
        assert ("cosine with the vectors before rounding: mean " in err) == (precision != "full")
        found[precision] = tacenda.load(tmp_path / str(precision))
    assert [model.precision for model in found.values()] == ["int8", "float16", "full"]
    words = found["full"].vocabulary.words[5:50]
    exact = found["full"].vectors(words)
    for precision, bound in ((None, 1 / 254), ("float16", 1 / 2048)):
        off = np.abs(found[precision].vectors(words) - exact).max(axis=1)
        assert (off <= 2 * bound * np.abs(exact).max()).all()
    status, _, err = run(*fit, tmp_path / "new", "--precision", "int4")
    assert status != 0
    assert "--precision must be one of full, float16, int8, not int4" in err


def test_a_language_means_the_tokenizer_of_spacy(run, write_file, tmp_path):
    pytest.importorskip("spacy")
    text = write_file("text.txt", "L'homme n'est pas là.\n" * 20)
    fit = ("fit", "--model", "toy", "--text", text, "--output", tmp_path / "m", "--language")
    assert run(*fit, "fr")[0] == 0
    model = tacenda.load(tmp_path / "m")
    assert model.fitted_on["tokenizer"] == "spacy:fr"
    assert {"L'", "n'", "."} <= set(model.vocabulary.words)
    err = run.refusal(*fit, "fr", "--tokenizer", "words", "--force")
    assert "leave out one of the two" in err


def test_a_setting_of_two_models_says_whose_it_is(run, tmp_path):
    arguments = ("--text", tmp_path / "none.txt", "-o", tmp_path / "m", "--set", "width=6")
    err = run.refusal("fit", "--model", "vectors", *arguments)
    assert "--set vectors.width=..." in err
    err = run.refusal("fit", "--model", "vectors", *arguments[:4], "--set", "lds=6")
    assert "--set lds.NAME=..." in err
    err = run.refusal("fit", "--model", "vectors", "--distribution", "nobody", *arguments[:4])
    assert "nobody" in err
