"""What goes wrong with hidden Markov models: every fault is one sentence, or is none."""

import numpy as np
import pytest

from support.texts import text
from tacenda import Corpus, devices
from tacenda.errors import ArtifactError, ConfigurationError, FittingError
from tacenda_lm import HMM, VLHMM
from tacenda_lm.distributions import states_before
from tacenda_lm.hidden_markov.settings import VLHMMSettings

SMALL = {"n_classes": 5, "states_per_class": 4, "width": 8, "batch_words": 100, "epochs": 2}
KINDS = [
    {},
    {"transitions": "flat"},
    {"transitions": "features", "advanced": {"n_features": 5}},
    {"width": 64, "advanced": {"neural": False}},
]


@pytest.fixture(scope="module", params=[*KINDS, "hmm"], ids=str)
def model(request):
    if request.param == "hmm":
        return HMM(n_states=4, epochs=2).fit(text())
    return VLHMM(**{**SMALL, **request.param}).fit(text())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_rate_that_diverges_at_once_is_said_and_nothing_else(kind):
    model = VLHMM(**{**SMALL, **kind}, learning_rate=5e4)
    with pytest.raises(FittingError, match=r"first epoch.*use a lower learning rate"):
        model.fit(text())


@pytest.mark.parametrize(
    "settings", [{"states_per_class": 65536}, {"states_per_class": 2048, "width": 16384}]
)
def test_more_states_than_the_machine_holds_are_refused_before_they_are_made(settings):
    said = r"training needs about .* GB.*fewer states_per_class"
    with pytest.raises(ConfigurationError, match=said):
        VLHMM(**{**SMALL, "n_classes": 10, **settings}).fit(text())


def test_free_parameters_of_all_pairs_of_classes_count_for_the_memory(monkeypatch):
    """However small the batches are: five copies of 4 bytes for each of 300^2 numbers of a pair."""
    monkeypatch.setattr(devices, "available_memory", lambda device: 8_000_000)
    settings = {"n_classes": 5, "states_per_class": 300, "advanced": {"neural": False}}
    with pytest.raises(ConfigurationError, match="training needs about"):
        VLHMM(**settings, batch_words=1).fit(text())


def test_the_memory_of_a_step_grows_with_its_blocks():
    """As the documentation has it: twice 4 bytes a number of a block, and the gradient's vectors."""
    settings = VLHMMSettings(n_classes=256, states_per_class=64, width=64)
    grown = settings.bytes_needed(10_000, 6600) - settings.bytes_needed(10_000, 0)
    assert grown == 4 * 6600 * (2 * 32 * 32 + 32 * 64)


def test_a_sentence_of_ten_thousand_words(model):
    words = [f"w{w}" for w in np.random.default_rng(0).integers(0, 12, 10_000)]
    found = model.surprisal(words)
    assert np.isfinite(found).all()
    assert len(found) == 10_000
    assert len(model.viterbi(words)) == 10_001
    ids = model.vocabulary.encode(words)
    pieces = list(model.tables.passes(ids, np.array([0, len(ids)])))
    assert len(pieces) == 1, "all blocks of so few classes fit, so there is no need of pieces"


def test_texts_without_words(model):
    assert model.surprisal([]).shape == (0,)
    assert model.viterbi([]).shape == (1,)
    assert model.viterbi([], eos=False).shape == (0,)
    assert model.posterior([], eos=False).probabilities.shape == (0, 4)
    assert model.perplexity([]).n_tokens == 0
    np.testing.assert_array_equal(model.score_corpus(np.zeros(0, np.int32), np.zeros(3, int)), [])


@pytest.mark.filterwarnings("error")
def test_a_word_of_probability_zero_has_one_score_and_the_words_after_it_theirs(model):
    """At the beginning and within sentences, several in one, and where one pass continues another."""
    lexicon, arrays = model.tables.lexicon, dict(model.arrays())
    group = int(np.diff(lexicon.offsets).argmax())
    own = slice(*lexicon.offsets[group : group + 2])
    arrays["emissions"] = emissions = arrays["emissions"].copy()
    emissions[own.start] = 0
    emissions[own] /= emissions[own].sum(axis=0)
    zeroed = type(model).from_arrays(model.config_dict(), arrays)
    word, end = int(lexicon.order[own.start]), model.vocabulary.boundary_id
    inner = [i for i in range(len(model.vocabulary)) if i not in (word, end)]
    ids = np.array([word, *inner[:3], word, word, *inner[3:6], end, *inner, word, end], np.int32)
    states = list(states_before(zeroed, zeroed.start(), ids))
    scores = zeroed.score_corpus(ids, np.array([0, 0, len(ids)]))
    np.testing.assert_allclose(scores, zeroed.log_prob(states, ids), rtol=1e-4)
    assert (scores[ids == word] == scores.min()).all()
    continued, _ = zeroed.score_from(states[4], ids[4:])
    np.testing.assert_allclose(continued, scores[4:], rtol=1e-4)
    np.testing.assert_allclose(zeroed.posterior(["x"]).probabilities.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("method", ["exchange", "predictive", "brown"])
@pytest.mark.parametrize("n_classes", [2, 9, 15])
def test_words_of_the_vocabulary_that_the_text_has_not(method, n_classes):
    """Classes of one word, and of words without a count."""
    vocabulary = Corpus.from_sentences([*text(), ["aa", "bb", "cc"]]).vocabulary
    train = Corpus.from_sentences(text(40), vocabulary=vocabulary)
    model = VLHMM(**{**SMALL, "n_classes": n_classes}, advanced={"word_classes": method}).fit(train)
    assert np.isfinite(model.surprisal(["aa", "w1", "zebra", "cc"])).all()


@pytest.mark.parametrize("wrong", [-1, 5])
def test_classes_out_of_range_are_refused(wrong):
    model = VLHMM(**SMALL).fit(text())
    arrays = {**model.arrays(), "classes": model.arrays()["classes"].copy()}
    arrays["classes"][3] = wrong
    with pytest.raises(ArtifactError, match=r"'classes' holds .* 0 to 4"):
        VLHMM.from_arrays(model.config_dict(), arrays)


@pytest.mark.parametrize("change", [0.0, -1.0, 5.0])
def test_arrays_that_are_no_probabilities_are_refused(model, change):
    tables = {"starts", "emissions", "matrix", "to_classes", "kept"} & model.arrays().keys()
    assert {"starts", "emissions"} <= tables
    for name in tables:
        arrays = {key: array.copy() for key, array in model.arrays().items()}
        place = np.unravel_index(arrays[name].argmax(), arrays[name].shape)
        arrays[name][place] = change
        with pytest.raises(ArtifactError, match=f"'{name}' does not hold probabilities"):
            type(model).from_arrays(model.config_dict(), arrays)
