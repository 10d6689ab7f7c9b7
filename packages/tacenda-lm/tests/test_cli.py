"""``tacenda lm``: fit, score, perplexity, generate and mix, and what a mistake looks like."""

import itertools
import json
import random
from pathlib import Path

import pytest

import tacenda
from tacenda.artifact import by_name
from tacenda.testing.models import sample_sentences
from tacenda_lm import HLBL, BrownClusters, KneserNey, Mixture, brown_clusters

TEXT = sample_sentences(120)


@pytest.fixture
def text(write_file):
    return write_file("text.txt", "\n".join(map(" ".join, TEXT)) + "\n")


@pytest.fixture
def valid(write_file):
    lines = [*map(" ".join, sample_sentences(20, seed=1)), "zebra a0"]
    return write_file("valid.txt", "\n".join(lines) + "\n")


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
        (["--model", "mixture"], "mix them with `tacenda lm mix`"),
        (["--set", "ordr=3"], "ordr"),
        (["--set", "advanced.order=3"], "advanced"),
        (["--order", "99"], "order"),
        (["--tokenizer", "nonsense"], "nonsense"),
        (["--text", "nowhere.txt"], "nowhere.txt"),
        (["--valid", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_mistake_in_fit_is_one_line_and_status_1(refused, text, tmp_path, arguments, message):
    err = refused("fit", "--text", text, "--output", tmp_path / "m", *arguments)
    assert message in err.splitlines()[-1]
    assert not (tmp_path / "m").exists()


def test_checkpoints_are_refused_before_the_text_is_read(refused, text, tmp_path, monkeypatch):
    monkeypatch.setattr("tacenda.Corpus.from_text", lambda *_, **__: pytest.fail("it is read"))
    fit = ("fit", "--text", text, "-o", tmp_path / "new", "--checkpoints", tmp_path / "no")
    for more in ([], ["--scheduler", "threads"]):
        assert "leave out checkpoints" in refused(*fit, *more)


def test_fit_takes_advanced_options_and_keeps_checkpoints(printed, text, tmp_path):
    small = ("--set", "width=4", "--set", "epochs=1", "--set", "advanced.tied=false")
    printed(
        "fit", "--model", "lbl", "--text", text, "--output", tmp_path / "m", *small,
        "--checkpoints", tmp_path / "progress",
    )  # fmt: skip
    assert (tmp_path / "progress" / "checkpoint.json").exists()
    model = tacenda.load(tmp_path / "m")
    assert (model.settings.width, model.settings.advanced.tied) == (4, False)


def test_perplexity_is_shown_with_what_it_counts(printed, saved, valid):
    found = tacenda.load(saved).perplexity(valid)
    out = printed("perplexity", saved, valid)
    assert "1 of them outside the vocabulary" in out
    for value in (found, found.without_oov, found.without_eos, found.bits_per_character):
        assert f"{value:.4f}" in out
    out = printed("perplexity", saved, valid, "--json")
    assert json.loads(out)["value"] == pytest.approx(found)


@pytest.fixture
def scored(printed, saved, write_file):
    """The rows that ``tacenda lm score`` prints of three lines, the second of them blank."""
    path = write_file("lines.txt", "a0 b0\n\nzebra\n")
    return lambda *more: [
        line.split("\t") for line in printed("score", saved, path, *more).splitlines()
    ]


def test_score_prints_a_line_for_every_line(scored, saved):
    model = tacenda.load(saved)
    for more, blank in (((), 0.0), (("--blank-lines", "count"), model.score(""))):
        rows = scored(*more)
        assert [sentence for _, sentence in rows] == ["a0 b0", "", "zebra"]
        expected = [model.score("a0 b0"), blank, model.score("zebra")]
        assert [float(score) for score, _ in rows] == pytest.approx(expected, rel=1e-4)


def test_score_of_words_is_their_surprisal(scored, saved):
    words = [row[0] for row in scored("--words", "--blank-lines", "count")]
    assert words == ["a0", "b0", "</s>", "", "</s>", "", "zebra", "</s>", ""]
    rows = scored("--words")
    assert [row[0] for row in rows] == ["a0", "b0", "</s>", "", "", "zebra", "</s>", ""]
    bits = tacenda.load(saved).surprisal("a0 b0")
    assert [float(row[1]) for row in rows[:2]] == pytest.approx(bits, abs=1e-3)


def test_generate_repeats_with_its_seed(printed, saved):
    first = printed("generate", saved, "--context", "a0", "-n", 4, "--seed", 3)
    assert first == printed("generate", saved, "--context", "a0", "-n", 4, "--seed", 3)
    lines = first.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("a0") for line in lines)


@pytest.mark.parametrize(("width", "n"), [(5, 2), (2, 5), (1, 3)])
def test_a_beam_prints_the_sentences_of_the_function(printed, saved, width, n):
    found = json.loads(printed("generate", saved, "--beam", width, "-n", n, "--json"))
    assert found == [
        each._asdict() for each in tacenda.load(saved).beam(width=width, n=n, max_words=50)
    ]


def test_what_a_sentence_begins_with_is_split_as_the_text_of_the_fit(printed, write_file, tmp_path):
    text, model = write_file("text.txt", "The cat, the dog sat.\n" * 3), tmp_path / "m"
    printed("fit", "--text", text, "--tokenizer", "words", "--order", 2, "--output", model)
    apart, attached = (
        printed("generate", model, "--context", context, "--beam", 3, "-n", 1)
        for context in ("The cat ,", "The cat,")
    )
    assert apart == attached


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *itertools.product(["mix", "compact"], ["--tokenizer", "--encoding", "--errors"]),
        ("mix", "--marks"),
    ],
)
def test_an_option_of_a_text_without_a_text_is_refused(run, saved, tmp_path, command, option):
    status, _, err = run(command, saved, "-o", tmp_path / "out", option, "keep")
    assert status == 2
    assert f"{option} has no effect without" in " ".join(err.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--seed", "--temperature", "--k"])
def test_a_beam_takes_no_option_of_random_draws(refused, saved, option):
    err = refused("generate", saved, "--beam", 5, option, 1, status=2)
    assert f"{option} has no effect with --beam; leave it out" in " ".join(err.split())


def test_mix_fits_weights_and_saves_a_mixture(printed, saved, valid, tmp_path):
    unigrams, mixed = tmp_path / "unigrams", tmp_path / "mixed"
    KneserNey(order=1).fit(TEXT).save(unigrams)
    out = printed("mix", saved, unigrams, "--valid", valid, "--output", mixed)
    mixture = tacenda.load(mixed)
    assert isinstance(mixture, Mixture)
    assert set(mixture.weights) == {"saved", "unigrams"}
    assert [line.split()[1] for line in out.splitlines()] == list(mixture.weights)
    assert mixture.figures[0]["value"] <= tacenda.load(saved).perplexity(valid)
    printed("mix", saved, saved, "--weights", "1,3", "--output", tmp_path / "fixed")
    assert tacenda.load(tmp_path / "fixed").weights == {"model-0": 0.25, "model-1": 0.75}


@pytest.mark.parametrize(
    "arguments",
    [["fit"], ["perplexity"], ["mix", "a", "--output", "b", "--weights", "x"], ["no-such"],
     ["mix", "a", "--output", "b", "--weights", "1", "--valid", "f"]],
)  # fmt: skip
def test_wrong_usage_is_status_2(run, arguments):
    assert run(*arguments)[0] == 2


def test_what_is_missing_is_named(refused, saved, text, tmp_path):
    for arguments, name in (
        (["perplexity", tmp_path / "none", text], "none"),
        (["perplexity", saved, "nowhere.txt"], "nowhere.txt"),
        (["score", saved, tmp_path], "directory"),
        (["generate", text], "text.txt"),
        (["mix", saved, saved, "--weights", "1,2,3", "--output", tmp_path / "x"], "weights"),
        (["mix", saved, "--output", text], "text.txt"),
    ):
        err = refused(*arguments)
        assert name in err
        assert err.count("\n") == 1


def test_perplexity_of_a_stream(printed, refused, text, valid, tmp_path):
    """A log-bilinear model looks beyond the end of a sentence: the two contexts differ, and are named."""
    HLBL(width=8, copies=1, epochs=1).fit(text).save(tmp_path / "hlbl")
    command, found = ("perplexity", tmp_path / "hlbl", valid, "--context"), {}
    for context in ("sentence", "stream"):
        found[context] = json.loads(printed(*command, context, "--json"))
        assert found[context]["context"] == context
    assert found["sentence"]["value"] != found["stream"]["value"]
    assert "paragraph" in refused(*command, "paragraph")


def test_mix_makes_a_mixture_that_follows_the_text(run, printed, refused, text, valid, tmp_path):
    for order in (1, 2):
        printed("fit", "--text", text, "-o", tmp_path / f"m{order}", "--order", order)
    asked = ("mix", tmp_path / "m1", tmp_path / "m2", "-o", tmp_path / "mixed", "--adaptive")
    assert run(*asked)[0] == 2
    assert "adaptation" in printed(*asked, "--valid", valid)
    assert tacenda.load(tmp_path / "mixed").name == "adaptive_mixture"
    err = refused("fit", "--text", text, "-o", tmp_path / "x", "--model", "adaptive_mixture")
    assert "mix them with" in err


def test_a_tokenizer_that_is_not_kept_has_to_be_named(refused, printed, text, valid, tmp_path):
    corpus = tacenda.Corpus.from_text(text, tokenizer=str.split)
    KneserNey(order=2).fit(corpus).save(tmp_path / "own")
    for command in "perplexity", "surprisal":
        assert "such as --tokenizer words" in refused(command, tmp_path / "own", valid)
    out = printed("perplexity", tmp_path / "own", valid, "--tokenizer", "whitespace")
    assert "perplexity" in out


def test_a_mixture_splits_text_as_its_components_were_fitted(
    refused, printed, write_file, tmp_path
):
    lines = ["Don't go, Jim.", "Go!"]
    model = KneserNey(order=2).fit(tacenda.Corpus.from_text(lines, tokenizer="words"))
    Mixture({"inner": Mixture([model]), "other": model}).save(tmp_path / "mixed")
    file = write_file("lines.txt", "\n".join(lines))
    assert json.loads(printed("perplexity", tmp_path / "mixed", file, "--json"))["n_oov"] == 0
    other = KneserNey(order=2).fit(tacenda.Corpus.from_text(lines, vocabulary=model.vocabulary))
    Mixture([model, other]).save(tmp_path / "mixed-up")
    err = refused("perplexity", tmp_path / "mixed-up", file)
    assert "different tokenizers, ['whitespace', 'words']: give one, such as --tokenizer" in err


# -- exchange ------------------------------------------------------------------------------------------


def test_models_go_to_arpa_files_and_come_back(run, printed, refused, saved, valid, tmp_path):
    for name in ("m.arpa", "m.arpa.gz"):
        status, out, err = run("to-arpa", saved, tmp_path / name)
        assert (status, out) == (0, "")
        assert "1 to 3 words" in err
        printed("from-arpa", tmp_path / name, "--output", tmp_path / f"{name}.model")
        again = tacenda.load(tmp_path / f"{name}.model")
        assert again.perplexity(valid) == pytest.approx(tacenda.load(saved).perplexity(valid), 1e-5)
    status, out, err = run("to-arpa", saved, "-")
    assert (status, out) == (0, (tmp_path / "m.arpa").read_text(encoding="utf8"))
    assert err == "n-grams of 1 to 3 words on standard output\n"
    assert not Path("-").exists()
    err = refused("from-arpa", valid, "--output", tmp_path / "none")
    assert err.count("\n") == 1
    assert "valid.txt" in err
    Mixture([tacenda.load(saved)]).save(tmp_path / "mixture")
    assert "'mixture'" in refused("to-arpa", tmp_path / "mixture", tmp_path / "x.arpa")
    assert not (tmp_path / "x.arpa").exists()


@pytest.mark.parametrize("source", ["model", "words", "clusters", "one cluster"])
def test_a_model_of_the_words_of_another_can_be_mixed_with_it(
    printed, text, valid, write_file, tmp_path, source
):
    words = sorted({word for sentence in TEXT for word in sentence})[:8]
    write_file("words", f"<s> {' '.join(words[:4])} </s>\n" + "\n".join(words[3:]))
    write_file(
        "clusters", "".join(f"{i % 2}\t{word}\t{7 - i}\r\n \n" for i, word in enumerate(words))
    )
    BrownClusters((word, "", 1) for word in words).save(tmp_path / "one cluster")
    model, other = tmp_path / "model", tmp_path / "other"
    fit = ("fit", "--order", 2, "--vocabulary")
    printed(*fit, tmp_path / "words", "--text", text, "--output", model)
    printed(*fit, tmp_path / source, "--text", valid, "--output", other)
    one, two = tacenda.load(model), tacenda.load(other)
    assert set(one.vocabulary.words) == set(two.vocabulary.words) == {*words, "</s>", "<unk>"}
    printed("mix", model, other, "--output", tmp_path / "m")
    if source == "words":
        assert one.vocabulary.words == (*words, "</s>", "<unk>"), "they keep their order"


def test_a_vocabulary_that_cannot_be_used_is_refused(refused, text, saved, tmp_path, write_file):
    marks = write_file("marks", "<s> </s>\n\n<unk>")
    for more, message in (
        (("--vocabulary", marks), "marks has no words"),
        (("--vocabulary", "nowhere"), "nowhere"),
        (("--vocabulary", tmp_path), "model"),
        (("--vocabulary", saved, "--max-vocabulary", 5), "max_vocabulary"),
        (("--vocabulary", saved, "--lowercase"), "lowercase"),
    ):
        err = refused("fit", "--text", text, "--output", tmp_path / "m", *more)
        assert message in err.splitlines()[-1]
        assert not (tmp_path / "m").exists()


def test_clusters_are_those_of_the_function(printed, text, tmp_path):
    printed("clusters", "--text", text, "--output", tmp_path / "c", "--n-classes", 4)
    assert BrownClusters.load(tmp_path / "c") == brown_clusters(text, 4)


def test_nothing_is_overwritten_unless_told_to(run, printed, refused, text, saved, tmp_path):
    (tmp_path / "file").write_text("mine")
    before = (saved / "model.json").read_bytes()
    commands = [
        ("mix", saved, "--output", saved),
        ("fit", "--text", text, "--order", 1, "--output", saved),
        ("to-arpa", saved, tmp_path / "file"),
        ("clusters", "--text", text, "--n-classes", 2, "--output", tmp_path / "file"),
    ]
    for command in commands:
        assert "--force" in refused(*command)
        assert (saved / "model.json").read_bytes() == before
        assert (tmp_path / "file").read_text() == "mine"
    for command in commands:
        printed(*command, "--force")
    printed("to-arpa", saved, tmp_path / "m.arpa")
    assert run("from-arpa", tmp_path / "m.arpa", "--output", saved)[0] == 1
    printed("from-arpa", tmp_path / "m.arpa", "--output", saved, "--force")
    assert (tmp_path / "file").read_text() != "mine"


# -- texts ---------------------------------------------------------------------------------------------


def test_a_dash_is_standard_input(run, printed, refused, stdin, text, saved, valid, tmp_path):
    for command in ("score", "perplexity"):
        expected = run(command, saved, valid)
        stdin(valid.read_bytes())
        assert run(command, saved, "-") == expected
    stdin(text.read_bytes())
    printed("fit", "--text", "-", "--order", 3, "--output", tmp_path / "m")
    assert tacenda.load(tmp_path / "m").perplexity(valid) == tacenda.load(saved).perplexity(valid)
    stdin(valid.read_bytes())
    printed("mix", saved, tmp_path / "m", "--valid", "-", "--output", tmp_path / "x")
    stdin(b"")
    for other in (text, "file:///none.txt"):
        status, _, err = run("fit", "--text", "-", "--text", other, "--output", tmp_path / "y")
        assert (status, "which cannot be combined with other texts" in err) == (2, True)
    for read in (
        ["--text", "-", "--valid", "-"],
        ["--text", "-", "--vocabulary", "-"],
        ["--text", text, "--valid", "-", "--vocabulary", "-"],
    ):
        assert "give it once" in run("fit", *read, "--output", tmp_path / "y")[2]
    stdin(b"a \xff b\n")
    assert "standard input is not utf-8 at line 1" in refused("score", saved, "-")


def test_undecodable_bytes_are_refused_or_replaced(run, printed, refused, saved, tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("a0 caf\u00e9 b0\n".encode("latin-1"))
    err = refused("score", saved, path)
    assert "--errors replace" in err
    assert "errors=" not in err
    for more, word in (
        (("--errors", "replace"), "caf\ufffd"),
        (("--errors", "ignore"), "caf"),
        (("--encoding", "latin-1"), "caf\u00e9"),
    ):
        assert printed("score", saved, path, *more).split()[1:] == ["a0", word, "b0"]
    for command in (
        ("fit", "--text", path, "--order", 1, "--output", tmp_path / "m"),
        ("perplexity", saved, path),
        ("mix", saved, "--valid", path, "--output", tmp_path / "x"),
        ("clusters", "--text", path, "--n-classes", 2, "--output", tmp_path / "c"),
    ):
        assert run(*command)[0] == 1, command
        printed(*command, "--errors", "replace")


def test_marks_are_refused_with_their_line_or_read_as_spaces(
    run, refused, saved, write_file, tmp_path
):
    path = write_file("marked.txt", "a0 b0\n<s> a0 </s>\n")
    clean = write_file("clean.txt", "a0 b0\na0\n")
    for command in (
        ("perplexity", saved, path),
        ("score", saved, path),
        ("fit", "--text", path, "--output", tmp_path / "m"),
        ("fit", "--text", clean, "--valid", path, "--output", tmp_path / "m"),
        ("mix", saved, "--valid", path, "--output", tmp_path / "x"),
        ("clusters", "--text", path, "--n-classes", 2, "--output", tmp_path / "c"),
    ):
        err = refused(*command)
        assert "marked.txt, line 2: <s> is written" in err
        assert "--marks skip" in err
    assert run("perplexity", saved, path, "--marks", "skip") == run("perplexity", saved, clean)
    assert run("score", saved, path, "--marks", "skip") == run("score", saved, clean)
    assert run("score", saved, path, "--marks", "drop")[0] == 1
    assert run("score", saved, path, "--blank-lines", "drop")[0] == 1


def test_blank_lines_of_a_perplexity_count_when_asked(printed, saved, write_file):
    path = write_file("lines.txt", "a0 b0\n\n\n")
    for more, n in (((), 3), (("--blank-lines", "count"), 5)):
        assert json.loads(printed("perplexity", saved, path, "--json", *more))["n_tokens"] == n


@pytest.mark.filterwarnings("always")
def test_notes_are_lines_and_not_tracebacks(run, write_file, tmp_path):
    path = write_file("text.txt", "a <unk> b\n<unk> a\n")
    _, _, err = run("fit", "--text", path, "--order", 2, "--output", tmp_path / "m")
    notes = [line for line in err.splitlines() if line.startswith("tacenda: note: ")]
    assert ["<unk> is written 2 times" in note for note in notes] == [True, False]
    assert "--discount_fallback" in notes[1]
    assert "UserWarning" not in err


def test_what_is_missing_is_hinted_at_in_words_of_the_command_line(refused, saved, valid, tmp_path):
    for file, hint in (
        (tmp_path / "vald.txt", "did you mean"),
        (tmp_path / "nothing-like-it", "check its name"),
        (tmp_path / "no" / "folder.txt", "no folder"),
        (tmp_path, "name a file in it"),
    ):
        for command in (
            ("score", saved, file),
            ("fit", "--text", file, "--output", tmp_path / "m"),
            ("fit", "--text", valid, "--valid", file, "--output", tmp_path / "m"),
        ):
            err = refused(*command)
            assert hint in err.splitlines()[-1]
            assert "Path(" not in err
            assert "glob" not in err


def test_compact_saves_a_smaller_model_and_says_what_is_lost(run, saved, valid, tmp_path):
    small = tmp_path / "small"
    status, out, err = run("compact", saved, "--output", small, "--bits", 4, "--text", valid)
    assert (status, err) == (0, "")
    found, before = tacenda.load(small), tacenda.load(saved)
    assert found.settings.bits == 4
    text = [line.split() for line in valid.read_text(encoding="utf8").splitlines()]
    figures = [f"{each.perplexity(text).value:.2f}" for each in (before, found)]
    assert f"tokens: {figures[0]}, now {figures[1]}\n" in out


@pytest.mark.parametrize("content", [None, b"a \xff b\n", b"a <s> b\n"])
def test_compact_saves_nothing_if_its_text_cannot_be_read(refused, saved, tmp_path, content):
    text, small = tmp_path / "held-out.txt", tmp_path / "small"
    if content is not None:
        text.write_bytes(content)
    assert refused("compact", saved, "--output", small, "--text", text).count("\n") == 1
    assert not small.exists()


def test_a_save_that_was_killed_does_not_hinder_the_next(printed, refused, text, tmp_path):
    out = tmp_path / "out"
    left = out / ".tacenda-0123456789abcdef0123456789abcdef"
    left.mkdir(parents=True)
    (left / "tensors").write_bytes(b"half")
    (out / f"tensors-{'0' * 32}.safetensors").write_bytes(b"half")
    printed("fit", "--text", text, "--output", out, "--order", 2)
    assert not left.exists()
    assert tacenda.load(out).order == 2
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".tacenda-notes").touch()
    assert "holds other files" in refused("fit", "--text", text, "--output", tmp_path / "other")


def test_text_that_the_model_was_fitted_to_is_announced(run, write_file, tmp_path):
    words = [f"w{i}" for i in range(40)]
    lines = [" ".join(random.Random(i).sample(words, 10)) for i in range(120)]
    old, new = (
        write_file("old.txt", "\n".join(lines[:60])),
        write_file("new.txt", "\n".join(lines[60:])),
    )
    first, second = tmp_path / "first", tmp_path / "second"
    fit = ("fit", "--text", old, "--order")
    for text, said in ((old, True), (new, False)):
        for command in (
            (*fit, 1, "-o", first, "--valid", text, "--force"),
            (*fit, 2, "-o", second, "--vocabulary", first, "--valid", text, "--force"),
            ("perplexity", first, text),
            ("perplexity", first, text, "--json"),
            ("surprisal", first, text),
            ("mix", first, second, "-o", tmp_path / "mixed", "--valid", text, "--force"),
            ("compact", first, "-o", tmp_path / "small", "--text", text, "--force"),
        ):
            status, _, err = run(*command)
            assert status == 0, err
            assert ("60 of 60 sentences of 8 words" in err) == said, command


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (["-n", 10**23], 2, "-n"),
        (["--max-words", 10**23], 2, "--max-words"),
        (["--beam", 10**23], 2, "--beam"),
        (["--temperature", "1e400"], 1, "temperature must be a finite number"),
        (["--temperature", "nan"], 1, "temperature must be a finite number"),
    ],
)
def test_what_no_run_could_end_with_is_refused(refused, saved, options, status, said):
    assert said in refused("generate", saved, *options, status=status).replace("\n", " ")


def test_compact_measures_an_installed_model_where_it_lies(printed, saved, tmp_path, monkeypatch):
    monkeypatch.setattr(by_name, "_find", lambda name: [(None, saved)])
    (saved / "weight.bin").write_bytes(bytes(3_000_000))
    out = printed("compact", "small-lm", "--output", tmp_path / "small")
    assert out.startswith("3.0 MB, now 0.0 MB")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--precision", "int8"], 2, "--precision has no effect on a model 'kneser_ney'"),
        (["--bits", 99], 1, "bits"),
        (["--bits", 0], 1, "bits"),
    ],
)
def test_a_form_that_a_model_does_not_have_is_refused(
    refused, saved, tmp_path, arguments, status, message
):
    err = refused("compact", saved, "--output", tmp_path / "small", *arguments, status=status)
    assert message in " ".join(err.split())
    assert not (tmp_path / "small").exists()
