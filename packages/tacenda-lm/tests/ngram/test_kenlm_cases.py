"""What KenLM's own ``lm/model_test.cc`` expects of its ``test.arpa``, asked of our reader and our states.

The file is written here from those of its n-grams that the cases touch. Extension to the left, which decoders use and
the kenlm module does not offer, is left out; so is its back-off of +3, since a probability above one is refused.
"""

import pytest

from tacenda.errors import DataError
from tacenda_lm import KneserNey, State

#: log10 of the probability and of the back-off (None where the file has none), by the words.
NGRAMS = {
    ",": (-1.383514, -0.30103),
    ".": (-1.139057, -0.845098),
    "</s>": (-1.029493, None),
    "<s>": (-99, -0.4149733),
    "<unk>": (-1.995635, -20),
    "a": (-1.285941, -0.69897),
    "also": (-1.687872, -0.30103),
    "biarritz": (-1.687872, -0.30103),
    "consider": (-1.687872, -0.30103),
    "higher": (-1.509559, -0.30103),
    "however": (-1.687872, -0.30103),
    "little": (-1.285941, -0.69897),
    "loin": (-1.383514, -0.30103),
    "look": (-1.687872, -0.30103),
    "looking": (-1.285941, -0.4771212),
    "more": (-1.206319, -0.544068),
    "on": (-1.509559, -0.4771212),
    "the": (-1.687872, -0.30103),
    "to": (-1.687872, -0.30103),
    "watch": (-1.687872, -0.30103),
    "would": (-1.687872, -0.30103),
    "foo": (-3.141592, None),
    "bar": (-2.718281, None),
    "baz": (-6.535897, -0.0),
    "<s> looking": (-0.4846522, -0.4771214),
    "a little": (-0.09132547, -0.69897),
    "also would": (-2, -6),
    "biarritz .": (-0.2705918, None),
    "higher more": (-0.5511513, None),
    "little more": (-0.09021038, -0.1998621),
    "looking higher": (-0.4638903, None),
    "looking on": (-0.4638903, -0.4771212),
    "more .": (-0.5136299, -0.4771212),
    "more loin": (-0.3561665, None),
    "on a": (-0.1649931, -0.4771213),
    "to look": (-0.2922095, None),
    "watch </s>": (-0.2622373, None),
    "<unk> <unk>": (-15, -2),
    "<unk> however": (-4, -1),
    "foo bar": (-6, None),
    "more . </s>": (-0.01916512, None),
    "on a little": (-0.0283603, -0.4771212),
    "a little more": (-0.01660496, -0.09409451),
    "<s> looking higher": (-0.3488368, None),
    "<s> looking on": (-0.3488368, -0.4771212),
    "little more loin": (-0.1892331, None),
    "looking on a": (-0.04835128, -0.4771212),
    "also would consider": (-3, -7),
    "<unk> however <unk>": (-6, -12),
    "to look a": (-7, None),
    "looking on a little": (-0.009249173, -0.4771212),
    "on a little more": (-0.005464747, -0.4771212),
    "a little more loin": (-0.1453306, None),
    "<s> looking on a": (-0.01552657, -0.4771212),
    "also would consider higher": (-4, -8),
    "<s> looking on a little": (-0.003061223, None),
    "looking on a little more": (-0.001813953, None),
    "on a little more loin": (-0.0432557, None),
    "also would consider higher looking": (-5, None),
}


def write(path, ngrams):
    orders = {}
    for words, numbers in ngrams.items():
        orders.setdefault(len(words.split()), []).append((words, *numbers))
    lines = ["\\data\\", *(f"ngram {n}={len(rows)}" for n, rows in sorted(orders.items()))]
    for n, rows in sorted(orders.items()):
        lines += ["", f"\\{n}-grams:"]
        lines += [f"{p}\t{words}" + ("" if b is None else f"\t{b}") for words, p, b in rows]
    path.write_text("\n".join([*lines, "", "\\end\\", ""]), encoding="utf8")
    return path


@pytest.fixture(scope="module")
def arpa(tmp_path_factory):
    return write(tmp_path_factory.mktemp("kenlm") / "test.arpa", NGRAMS)


@pytest.fixture(scope="module", params=["read", "saved", "written"])
def lm(request, arpa, tmp_path_factory):
    """The model, and what comes back of it from an artefact and from a file of our own."""
    with pytest.warns(UserWarning, match="not normalized"):
        model = KneserNey.from_arpa(arpa)
    folder = tmp_path_factory.mktemp("again")
    if request.param == "saved":
        model.save(folder)
        return KneserNey.load(folder)
    if request.param == "written":
        model.to_arpa(folder / "again.arpa")
        with pytest.warns(UserWarning, match="not normalized"):
            return KneserNey.from_arpa(folder / "again.arpa")
    return model


def follow(lm, state, *expected):
    """Score words one after another; each is (word, n-gram length, log10 p) and perhaps the words of the state."""
    for word, length, log_prob, *kept in expected:
        row = lm.BaseFullScore(state, word, state)
        assert row.log_prob == pytest.approx(log_prob, rel=1e-5, abs=1e-6), word
        assert row.ngram_length == length, word
        assert row.oov == (word not in lm), word
        assert len(state.value) <= min(length, lm.order - 1), word
        if kept:
            assert [len(state.value)] == kept, word
    return state


def begun(lm, bos=True):
    state = State()
    (lm.BeginSentenceWrite if bos else lm.NullContextWrite)(state)
    return state


def test_the_first_word_of_a_sentence(lm):
    follow(lm, begun(lm), ("looking", 2, -0.4846522))
    follow(lm, begun(lm), (",", 1, -1.383514 - 0.4149733))
    follow(lm, begun(lm), ("this_is_not_found", 1, -1.995635 - 0.4149733))


def test_a_sentence_goes_on(lm):
    state = follow(
        lm, begun(lm),
        ("looking", 2, -0.484652), ("on", 3, -0.348837), ("a", 4, -0.0155266),
        ("little", 5, -0.00306122),
    )  # fmt: skip
    here = State(state.value)
    follow(
        lm, state,
        ("the", 1, -4.04005), ("biarritz", 1, -1.9889), ("not_found", 1, -2.29666),
        ("more", 1, -1.20632 - 20.0), (".", 2, -0.51363), ("</s>", 3, -0.0191651, 0),
    )  # fmt: skip
    follow(lm, here, ("more", 5, -0.00181395, 4), ("loin", 5, -0.0432557, 1))


def test_n_grams_that_only_longer_ones_imply(lm):
    state = follow(
        lm, begun(lm, bos=False),
        ("also", 1, -1.687872), ("would", 2, -2), ("consider", 3, -3),
    )  # fmt: skip
    here = State(state.value)
    follow(lm, state, ("higher", 4, -4), ("looking", 5, -5, 1))
    follow(lm, here, ("not_found", 1, -1.995635 - 7.0 - 0.30103))
    for after in (("not_found", 1, -1.995635 - 0.4771212), ("consider", 1, -1.687872 - 0.4771212)):
        follow(
            lm, begun(lm, bos=False),
            ("higher", 1, -1.509559), ("looking", 2, -1.285941 - 0.30103, 1), after,
        )  # fmt: skip
    follow(
        lm, begun(lm, bos=False),
        ("would", 1, -1.687872, 1), ("consider", 2, -1.687872 - 0.30103, 2),
        ("higher", 3, -1.509559 - 0.30103, 3), ("looking", 4, -1.285941 - 0.30103),
    )  # fmt: skip


def test_unknown_words_are_a_context_too(lm):
    state = follow(lm, begun(lm, bos=False), ("not_found", 1, -1.995635, 1))
    here = State(state.value)
    follow(lm, state, ("not_found2", 2, -15.0), ("not_found3", 2, -15.0 - 2.0))
    follow(lm, here, ("however", 2, -4), ("not_found3", 3, -6))


def test_a_state_keeps_no_more_than_matters(lm):
    follow(lm, begun(lm, bos=False), ("baz", 1, -6.535897, 0))
    follow(lm, begun(lm, bos=False), ("foo", 1, -3.141592, 1), ("bar", 2, -6.0, 0))
    follow(
        lm, begun(lm, bos=False),
        ("to", 1, -1.687872), ("look", 2, -0.2922095, 2), ("a", 3, -7),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("context", "bos", "expected"),
    [
        ("", True, ("looking", 2, -0.484652)),
        ("looking", True, ("on", 3, -0.348837)),
        ("looking", False, ("on", 2, -0.4638903)),
        ("looking on", True, ("a", 4, -0.0155266)),
        ("looking on a", True, ("little", 5, -0.00306122)),
        ("looking on a little", True, ("the", 1, -4.04005)),
        ("", False, ("the", 1, -1.687872)),
        ("the", False, ("biarritz", 1, -1.9889)),
        ("biarritz", False, ("not_found", 1, -2.29666)),
        ("", False, ("not_found", 1, -1.995635)),
    ],
)
def test_a_state_is_found_from_its_words_alone(lm, context, bos, expected):
    state = begun(lm, bos)
    for word in context.split():
        lm.BaseScore(state, word, state)
    assert lm.state_after(context, bos=bos) == state
    follow(lm, state, expected)


def test_the_vocabulary_numbers_every_word_once(lm):
    words = lm.vocabulary.words
    assert len(words) == len(set(words)) == sum(" " not in each for each in NGRAMS) - 1
    assert [lm.vocabulary.id_of(word) for word in words] == list(range(len(words)))
    assert "looking" in lm
    assert "<s>" in lm
    assert "</s>" in lm
    assert "<unk>" not in lm
    assert "not_found" not in lm


def test_a_back_off_that_makes_a_probability_above_one_is_refused(tmp_path):
    path = write(tmp_path / "above.arpa", {**NGRAMS, "bar": (-2.718281, 3.0)})
    with pytest.raises(DataError, match="above one"):
        KneserNey.from_arpa(path)
