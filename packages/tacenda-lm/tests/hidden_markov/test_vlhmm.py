"""VLHMM: the whole distribution by brute force, training that can be cut and stopped, states, what is refused."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from support.texts import text
from tacenda.errors import ConfigurationError, DataError
from tacenda_lm import VLHMM
from tacenda_lm.hidden_markov import tables as of_tables
from tacenda_lm.hidden_markov import training
from tacenda_lm.hidden_markov.network import draw_network
from tacenda_lm.hidden_markov.parameters import Lexicon
from tacenda_lm.hidden_markov.settings import VLHMMSettings
from tacenda_lm.hidden_markov.tables import BlockStore, Observed
from tacenda_lm.hidden_markov.training import Trainer, log_likelihood

SMALL = {"n_classes": 5, "states_per_class": 4, "width": 8, "batch_words": 100, "epochs": 4}
KINDS = [
    {},
    {"transitions": "flat"},
    {"transitions": "features", "advanced": {"n_features": 5}},
    {"width": 64, "advanced": {"neural": False}},
    {"n_classes": 1, "transitions": "features", "advanced": {"n_features": 3}},
]

#: Three sentences of six words in three classes.
IDS, OFFSETS = np.array([0, 3, 2, 5, 1, 4, 4, 2, 1, 0], np.int32), np.array([0, 4, 5, 10])
COUNTS = np.bincount(IDS)
LEXICON = Lexicon.of(np.array([0, 1, 1, 0, 2, 2], np.int32), 3)


def test_new_parameters_leave_the_random_numbers_of_torch_alone():
    before = torch.random.get_rng_state()
    draw_network(VLHMMSettings(n_classes=3, states_per_class=4, width=8), LEXICON, COUNTS)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("held_out", [False, True])
def test_a_fit_has_the_epochs_that_were_planned_and_the_most_with_held_out_text(held_out):
    settings = {**SMALL, "epochs": None, "patience": 100}
    model = VLHMM(**settings).fit(text(), valid=text(30, 1) if held_out else None)
    n_tokens = sum(len(sentence) for sentence in text())
    planned = 1 + n_tokens // (4 * len(model.vocabulary))
    assert model.fitted_on["training"]["epochs"] == (30 if held_out else planned) > 5


@pytest.fixture(scope="module")
def model():
    return VLHMM(**SMALL).fit(text(), valid=text(30, 1))


@pytest.fixture(scope="module", params=KINDS, ids=str)
def any_model(request):
    return VLHMM(**{**SMALL, **request.param, "epochs": 2}).fit(text())


def whole(model):
    """The model as one matrix over all Z states: starts, A[i, j], emissions[z, word], in float64."""
    tables, lexicon = model.tables, model.tables.lexicon
    M, k = tables.starts.shape
    A = np.zeros((M * k, M * k))
    for c in range(M):
        blocks = tables.learned.blocks(np.full(M, c), np.arange(M))
        A[c * k : (c + 1) * k] = blocks.transpose(2, 0, 1).reshape(k, M * k)
    O = np.zeros((M * k, len(lexicon.classes)))  # noqa: E741 - the paper's letter
    for word, c in enumerate(lexicon.classes):
        O[c * k : (c + 1) * k, word] = tables.emissions[lexicon.places[word]]
    return tables.starts.ravel().astype(np.float64), A, O


def test_everything_is_a_distribution(any_model):
    s, A, O = whole(any_model)  # noqa: E741
    assert s.sum() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(A.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(O.sum(axis=1), 1, atol=1e-5)


def test_scores_are_those_of_the_whole_matrix(any_model):
    """The classes are observed, so blocks lose nothing."""
    s, A, O = whole(any_model)  # noqa: E741
    words = text(1, 5)[0] + ["w3", "<unk>"]
    ids = [*any_model.vocabulary.encode(words).tolist(), any_model.vocabulary.boundary_id]
    found = any_model.score_corpus(np.array(ids), np.array([0, len(ids)]))
    before, expected = s, []
    for word in ids:
        joint = before * O[:, word]
        expected.append(np.log(joint.sum()))
        before = (joint / joint.sum()) @ A
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_the_gradient_is_that_of_the_whole_computation():
    """Against autograd through time, over the network's own parameters, for every kind of transitions."""
    for kind in ("two_level", "flat", "features"):
        advanced = {"n_features": 5} if kind == "features" else {}
        settings = VLHMMSettings(
            n_classes=3, states_per_class=3, width=4, transitions=kind, advanced=advanced
        )
        network = draw_network(settings, LEXICON, COUNTS).double()
        kept = torch.tensor([[0, 2], [0, 1], [1, 2]])
        observed = Observed.of(IDS, OFFSETS, LEXICON)
        found = log_likelihood(network, network(kept), observed, LEXICON)
        found.backward()
        gradients = {name: p.grad.clone() for name, p in network.named_parameters()}
        network.zero_grad()
        expected = through_time(network(kept), IDS, OFFSETS, LEXICON, kind)
        expected.backward()
        assert found.item() == pytest.approx(expected.item(), abs=1e-10)
        for name, parameter in network.named_parameters():
            np.testing.assert_allclose(
                gradients[name], parameter.grad, rtol=0, atol=1e-10, err_msg=f"{kind} {name}"
            )


def through_time(out, ids, offsets, lexicon, kind):
    """log p with every step recorded, over all states at once."""
    M, k, _ = out.left.shape
    left, reached = (x.reshape(M * k, -1) for x in (out.left, out.reached))
    if kind == "features":
        A = left @ reached.T
    else:
        scores = left @ reached.T + out.bias.ravel()
        A = scores.softmax(1)
        if kind == "two_level":
            inner = scores.view(M * k, M, k).softmax(2)
            A = (inner * out.log_classes.exp().reshape(M * k, M, 1)).reshape(M * k, M * k)
    total = 0.0
    for begin, end in itertools.pairwise(offsets.tolist()):
        before = out.log_starts.exp().ravel()
        for word in ids[begin:end]:
            c, place = lexicon.classes[word], lexicon.places[word]
            own = slice(*lexicon.offsets[c : c + 2])
            logs = (out.words[own] @ out.emitting[c].T + out.word_bias[own, None]).log_softmax(0)
            emitted = torch.zeros(M, k, dtype=logs.dtype)
            emitted[c] = logs[place - own.start].exp()
            joint = before * emitted.ravel()
            total = total + joint.sum().log()
            before = (joint / joint.sum()) @ A
    return total


def test_the_parameters_kept_are_the_running_average_of_those_of_the_steps(monkeypatch):
    """Of every step up to the hundredth and then of every tenth, newer ones weighing more."""
    monkeypatch.setattr(training, "_AVERAGING", 0.8)
    settings = VLHMMSettings(n_classes=3, states_per_class=2, state_dropout=0.0, width=4)
    network = draw_network(settings, LEXICON, COUNTS)
    trainer = Trainer(settings, network, LEXICON, IDS, OFFSETS, (IDS, OFFSETS))
    passed, weights = [], np.zeros(140)
    for n in range(1, len(weights) + 1):
        trainer.step(np.arange(3), 0.02)
        passed.append({name: p.detach().clone() for name, p in network.named_parameters()})
        each = 1 if n <= 100 else 10
        if n % each == 0:
            share = min(0.8**each, n / (n + 10 * each))
            weights *= share
            weights[n - 1] = 1 - share
    assert weights.sum() == pytest.approx(1, abs=1e-6)
    found = dict(trainer.averaged.named_parameters())
    for name in found:
        mean = sum(float(w) * each[name] for w, each in zip(weights, passed, strict=True))
        np.testing.assert_allclose(found[name], mean, atol=1e-5)
    assert not np.allclose(found["states"], passed[-1]["states"], atol=1e-4)
    perplexity = trainer.evaluate()
    for name, p in network.named_parameters():
        np.testing.assert_array_equal(p.detach(), passed[-1][name])
    averaged, observed = trainer.averaged, Observed.of(IDS, OFFSETS, LEXICON)
    total = log_likelihood(averaged, averaged(None), observed, LEXICON)
    assert perplexity == pytest.approx(float(torch.exp(-total.detach() / len(IDS))), rel=1e-5)


def test_the_fitted_model_is_the_one_that_did_best_on_the_held_out_text(model):
    evaluations = [value for _, _, value in model.fitted_on["training"]["evaluations"]]
    assert float(model.perplexity(text(30, 1))) == pytest.approx(min(evaluations), rel=1e-4)


def test_the_held_out_text_is_looked_at_every_so_many_epochs_and_at_the_end():
    settings = {**SMALL, "epochs": 5, "advanced": {"evaluate_every": 2}}
    model = VLHMM(**settings).fit(text(), valid=text(30, 1))
    assert [epoch for _, epoch, _ in model.fitted_on["training"]["evaluations"]] == [2, 4, 5]


def test_every_choice_of_states_is_as_likely_in_every_class():
    """Chi-square over the ten pairs of five states, which a right draw fails for one in a million seeds."""
    settings = VLHMMSettings(n_classes=2, states_per_class=5, state_dropout=0.6, width=4)
    trainer = Trainer(settings, torch.nn.Linear(1, 1), None, None, None, None)
    drawn = []
    for step in range(3000):
        trainer.steps = step
        drawn.append(trainer.draw_states().numpy())
    for each in np.stack(drawn, axis=1):
        pairs, counts = np.unique(each, axis=0, return_counts=True)
        assert len(pairs) == 10
        assert chisquare(counts).pvalue > 1e-6
    trainer.settings = VLHMMSettings(state_dropout=0.0)
    assert trainer.draw_states() is None


# -- states ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens_per_pass", [1, 2, 40])
def test_posteriors_and_the_best_path_are_those_of_all_paths(model, monkeypatch, tokens_per_pass):
    monkeypatch.setattr(of_tables, "_TOKENS_PER_PASS", tokens_per_pass)
    s, A, O = whole(model)  # noqa: E741
    words = ["w1", "w5", "w2"]
    ids = model.vocabulary.encode(words)
    k = model.tables.k
    classes = model.tables.lexicon.classes[ids]
    weights = {}
    for path in itertools.product(*(range(c * k, (c + 1) * k) for c in classes)):
        p = s[path[0]] * O[path[0], ids[0]]
        for t in (1, 2):
            p *= A[path[t - 1], path[t]] * O[path[t], ids[t]]
        weights[path] = p
    total = sum(weights.values())
    found = model.posterior(words, eos=False)
    np.testing.assert_array_equal(found.classes, classes)
    for t in range(3):
        for z in range(k):
            expected = sum(p for path, p in weights.items() if path[t] == classes[t] * k + z)
            assert found.probabilities[t, z] == pytest.approx(expected / total, abs=1e-5)
    best = max(weights, key=weights.get)
    assert tuple(model.viterbi(words, eos=False)) == best


def test_paths_of_a_text_are_those_of_its_sentences(model):
    sentences = text(5, 7)
    end = model.vocabulary.boundary_id
    ids = [[*model.vocabulary.encode(s).tolist(), end] for s in sentences]
    offsets = np.cumsum([0, *map(len, ids)])
    together = model.state_path(np.concatenate(ids), offsets)
    np.testing.assert_array_equal(together, np.concatenate([model.viterbi(s) for s in sentences]))


def test_words_know_their_class(model):
    for group in range(5):
        for word in model.words_of(group):
            assert model.class_of(word) == group
    assert model.class_of("never seen") == model.class_of("<unk>")
    assert model.words_of(model.class_of("</s>")) == ["</s>"]
    for group in (-1, 5, "a"):
        with pytest.raises(DataError, match=r"there is no class .*: they are 0 to 4"):
            model.words_of(group)


def test_small_stores_and_long_sentences_give_the_same_scores(model, monkeypatch):
    ids = np.concatenate([model.vocabulary.encode(s) for s in text(60, 3)])
    offsets = np.array([0, 5, 5, len(ids)])
    expected = model.score_corpus(ids, offsets)
    monkeypatch.setattr(model.tables, "store", BlockStore(model.learned, size=3 * 64))
    assert model.tables.store.capacity == 3
    np.testing.assert_allclose(model.score_corpus(ids, offsets), expected, atol=1e-5)


def test_pieces_of_several_sentences_give_the_scores_of_the_whole(model, monkeypatch):
    sentences = [model.vocabulary.encode(sentence) for sentence in text(60, 3)]
    ids, offsets = np.concatenate(sentences), np.cumsum([0, *map(len, sentences)])
    expected = model.score_corpus(ids, offsets)
    monkeypatch.setattr(of_tables, "_TOKENS_PER_PASS", 40)
    pieces = list(model.tables.passes(ids, offsets))
    assert len(pieces) > 3
    for tokens, _ in pieces:
        assert {tokens.start, tokens.stop} <= set(offsets.tolist())
        assert ((tokens.start < offsets) & (offsets < tokens.stop)).any(), "one sentence only"
    np.testing.assert_allclose(model.score_corpus(ids, offsets), expected, atol=1e-5)


def test_a_text_is_passed_in_one_piece_where_all_blocks_fit_however_few_there_are():
    one = VLHMM(n_classes=1, states_per_class=3, width=4, epochs=0).fit(text())
    sentences = [one.vocabulary.encode(sentence) for sentence in text(20, 3)]
    offsets = np.cumsum([0, *map(len, sentences)])
    assert one.tables.store.capacity == 1
    assert len(list(one.tables.passes(np.concatenate(sentences), offsets))) == 1


# -- awkward texts and settings ---------------------------------------------------------------------


@pytest.mark.parametrize("ids", [3, iter([1, 2]), [[1, 2]]], ids=["number", "iterator", "nested"])
def test_ids_that_are_no_row_are_refused(model, ids):
    for score in (model.score_from, lambda _, ids: model.score_corpus(ids, np.array([0, 2]))):
        with pytest.raises(DataError, match="ids must be integers in one dimension"):
            score(model.start(), ids)


def test_more_classes_than_words_is_said():
    with pytest.raises(ConfigurationError, match="n_classes is 50"):
        VLHMM(n_classes=50).fit([["a", "b"]])
