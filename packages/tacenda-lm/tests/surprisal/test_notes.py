"""What is said of texts in other characters, of many unknown words, and of lines that the model was fitted to."""

import re
import unicodedata
from dataclasses import replace

import numpy as np
import pytest

import tacenda
from tacenda import Corpus
from tacenda.errors import ArtifactError
from tacenda_lm import KneserNey, Mixture, surprisal_table
from tacenda_lm.line_sketch import SHORTEST, LineSketch, find_lines

LINES = [
    '"I don\'t know the caf\u00e9," said the old man - "and you?"',
    "The caf\u00e9 was closed, and the man went home...",
    "It's a long way -- she said it herself.",
]


def fit(lines=LINES, **options):
    return KneserNey(order=2).fit(Corpus.from_text(lines * 3, tokenizer="words", **options))


pytestmark = pytest.mark.filterwarnings("ignore")


def notes(model, text, **options):
    return [n for n in surprisal_table(model, text, **options).notes if "log_freq" not in n]


def note_of(model, text, said, **options):
    """The first note with these words, if there is one."""
    return next((note for note in notes(model, text, **options) if said in note), None)


@pytest.fixture(scope="module")
def model():
    return fit()


def spelling_note(model, text, **options):
    return note_of(model, text, "characters", **options)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("I don\u2019t know", "1 of 3 words .* plain quotation marks.*\"don't\" for 'don\u2019t'"),
        ("\u201cThe man\u201d went home\u2026", "3 of 4 words .* plain"),
        ("the cafe\u0301 was closed", "1 of 4 words .* NFC"),
        ("\uff34\uff48\uff45 man", "1 of 2 words .* NFKC.* 'The' for"),
    ],
)
def test_words_that_other_characters_would_make_known_are_named(model, text, said):
    assert re.search(said, spelling_note(model, text) or "")


def test_words_of_plain_text_are_known_in_the_characters_of_printed_text():
    typographic = [
        line.replace("'", "\u2019").replace(' "', " \u201c").replace('"', "\u201d")
        for line in LINES
    ]
    note = spelling_note(fit(typographic), "I don't know")
    assert "with typographic quotation marks and dashes, such as 'don\u2019t'" in note
    decomposed = [unicodedata.normalize("NFD", line) for line in LINES]
    assert "NFD" in spelling_note(fit(decomposed), "the caf\u00e9 was closed")


def test_capitals_are_named_only_where_the_vocabulary_has_none(model):
    assert spelling_note(model, "THE MAN") is None
    lower = fit([line.lower() for line in LINES])
    assert "lower case, such as 'the' for 'THE'" in spelling_note(lower, "THE zebra")
    assert spelling_note(fit(lowercase=True), "THE MAN went") is None


def test_a_text_in_one_case_is_compared_with_a_vocabulary_in_two(model):
    lines = " ".join(LINES * 2)
    assert "with lower case, such as" in spelling_note(model, lines.upper())
    text = "the man went home. it's closed. " * 7 + "x"
    note = spelling_note(fit(["The man went home. It's closed."]), text)
    assert "14 with capital letters, such as 'The' for 'the'" in note
    assert spelling_note(model, lines) is None


def cut_note(vocabulary_text, text):
    model = KneserNey(order=1).fit(Corpus.from_text([vocabulary_text]))
    return note_of(model, text, "cut differently")


@pytest.mark.parametrize(
    ("own", "given", "said"),
    [
        ("I did n't go", "I didn 't go", '"didn \'t" for "did n\'t"'),
        ("I didn 't go", "I did n't go", '"did n\'t" for "didn \'t"'),
        ("I didn't go", "I did n't go", '"did n\'t" for "didn\'t"'),
        ("l' homme", "l 'homme", '"l \'homme" for "l\' homme"'),
    ],
)
def test_words_that_are_cut_elsewhere_are_announced(own, given, said):
    note = cut_note(own, given)
    assert "1 word would be known if not cut differently" in note
    assert said in note


def test_unknown_words_next_to_apostrophes_are_not_taken_for_other_cuts():
    own = "the dog 's tail and ' the cat ' s"
    for given in ("the zebra 's tail", "' zebra '", "the dog 'zzz", "o'clock the dog"):
        assert cut_note(own, given) is None


def test_a_written_unk_next_to_an_apostrophe_is_not_another_cut():
    assert cut_note("the <unk> 's tail", "<unk> 's tail") is None


def test_a_word_that_stays_unknown_in_other_characters_is_not_named(model):
    assert spelling_note(model, "he said \u201czebra\u201d") is None
    note = spelling_note(model, "\u201czebra\u201d \u201cman\u201d")
    assert "1 of 2 words would be known" in note
    assert "zebra" not in note


def test_text_in_the_characters_of_the_model_has_no_note(model):
    assert spelling_note(model, "\n".join([*LINES, "a zebra's caf\u00e9"])) is None


def test_many_unknown_words_are_announced_with_their_share(model):
    text = " ".join(["the man"] * 48)
    note = note_of(model, f"{text} {'zebra ' * 12}", "vocabulary")
    assert note.startswith("12 of 108 words (11%) are not wholly in the vocabulary")
    note = note_of(model, "the man zebra zebra went home zebra", "vocabulary")
    assert note.startswith("3 of 7 words (43%) are not wholly in the vocabulary")  # of few words
    few = (f"{text} {'zebra ' * 10}", "zebra zebra", "the man went home " * 4 + "zebra " * 3)
    for text in few:
        assert note_of(model, text, "vocabulary") is None


# -- lines that the model was fitted to ----------------------------------------------------------------

WORDS = [f"w{i}" for i in range(500)]


def sentences(n, seed, shortest=8):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(shortest, 20))) for _ in range(n)]


@pytest.fixture(scope="module")
def old():
    return sentences(2000, 0)


@pytest.fixture(scope="module")
def fitted(old):
    return KneserNey(order=1).fit(Corpus.from_text([*old, " ".join(WORDS)]))


def seen_note(model, text):
    return note_of(model, text, "lines of the text")


def test_lines_that_the_model_was_fitted_to_are_announced(fitted, old):
    assert seen_note(fitted, "\n".join(old[:50])).startswith("50 of 50 sentences of 8 words")
    new = sentences(90, 1)
    assert seen_note(fitted, "\n".join([*new, *old[:10]])) is not None
    assert seen_note(fitted, [*new, *old[:10]]) is not None  # of many texts, too
    assert seen_note(fitted, "\n".join(new)) is None


def test_a_model_made_of_models_knows_their_lines(fitted, old):
    other = KneserNey(order=1).fit(Corpus.from_text(sentences(20, 2), vocabulary=fitted.vocabulary))
    assert seen_note(Mixture({"a": other, "b": fitted}), "\n".join(old[:20])) is not None
    assert seen_note(other, "\n".join(old[:20])) is None


def test_the_sketch_is_saved_with_the_model_and_with_a_smaller_one(fitted, old, tmp_path):
    for number, model in enumerate((fitted, fitted.smaller(bits=8))):
        model.save(tmp_path / str(number))
        again = tacenda.load(tmp_path / str(number))
        assert again.fitted_on == model.fitted_on
        np.testing.assert_array_equal(again.line_sketch.bits, fitted.line_sketch.bits)
        assert seen_note(again, "\n".join(old[:20])) is not None


def test_a_model_without_a_sketch_stays_silent(fitted, old, tmp_path):
    folder = tmp_path / "old"
    sketch, plain = LineSketch.take_from(fitted.to_artifact())
    assert sketch is not None
    model = KneserNey.from_artifact(plain)
    model.save(folder)
    assert "line_sketch" not in (folder / "model.json").read_text(encoding="utf8")
    assert tacenda.load(folder).line_sketch is None
    assert seen_note(tacenda.load(folder), "\n".join(old[:20])) is None


@pytest.mark.parametrize("most", [1 << 20, 300])
def test_every_line_passes_and_few_others_do(old, most, monkeypatch):
    monkeypatch.setattr("tacenda_lm.line_sketch._MAX_LINES", most)
    corpus = Corpus.from_text([*old, " ".join(WORDS)])
    sketch = LineSketch.of(corpus)
    assert (sketch.one_in > 1) == (most < len(old))
    unknown = corpus.vocabulary.oov_ids
    own = sketch.find(corpus.ids, corpus.offsets, unknown)
    assert own.n_seen == own.n_lines
    assert own.n_lines == pytest.approx(corpus.n_sentences / sketch.one_in, rel=0.2)
    assert 8 * len(sketch.bits) <= 10 * own.n_lines + 8
    new = Corpus.from_text(sentences(20_000, 3), vocabulary=corpus.vocabulary)
    others = sketch.find(new.ids, new.offsets, unknown)
    # 1% of 2,500 lines or more: five standard deviations are below 1%
    assert others.n_seen / others.n_lines == pytest.approx(sketch.false_positives, abs=0.01)
    assert 0.005 < sketch.false_positives < 0.011
    assert not others.is_fitted_text


def test_repeated_lines_take_no_room_from_others(old, monkeypatch):
    expected = LineSketch.of(Corpus.from_text(old))
    monkeypatch.setattr("tacenda_lm.line_sketch._MAX_LINES", len(old))
    found = LineSketch.of(Corpus.from_text(old * 3))
    assert (found.one_in, found.bits.tolist()) == (expected.one_in, expected.bits.tolist())


def test_short_lines_and_unknown_words_do_not_count(fitted):
    vocabulary = fitted.vocabulary
    short = " ".join(WORDS[: SHORTEST - 1])
    unknown = " ".join([*WORDS[: SHORTEST - 1], "zebra"])
    for line, n in ((short, 0), (unknown, 0), (" ".join(WORDS[:SHORTEST]), 1)):
        ids = vocabulary.encode(line.split())
        assert find_lines(fitted, ids, np.array([0, len(ids)])).n_lines == n


def test_what_is_kept_of_the_text_is_checked_when_a_model_is_loaded():
    corpus = Corpus.from_text([*LINES, "It's"], tokenizer="words", count_words=True)
    artifact = KneserNey(order=1).fit(corpus).to_artifact()
    kept = [n for n in artifact.arrays if n.startswith(("line_sketch.", "word_counts."))]
    assert len(kept) == 4
    for name in kept:
        without = {key: array for key, array in artifact.arrays.items() if key != name}
        changed = {name: artifact.arrays[name][None]}
        for change in ({}, changed, *[{name: -artifact.arrays[name]}] * name.endswith("counts")):
            with pytest.raises(ArtifactError, match=re.escape(name)):
                KneserNey.from_artifact(replace(artifact, arrays={**without, **change}))
    for about in ({}, {"one_in": 0}, {"one_in": "2"}, 3):
        facts = {**artifact.fitted_on, "line_sketch": about}
        with pytest.raises(ArtifactError, match="describes no sketch"):
            KneserNey.from_artifact(replace(artifact, fitted_on=facts))
