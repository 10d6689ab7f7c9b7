"""VarEmbed and SumEmbed as a user meets them: words seen and unseen, uncertainty, fitting."""

from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from scipy.stats import chisquare

import tacenda
from support.varembed import tiny
from tacenda import Corpus
from tacenda.errors import ConfigurationError, CorpusError, FittingError
from tacenda_embeddings import VarEmbed
from tacenda_embeddings.settings import WORD_OUTPUTS
from tacenda_embeddings.varembed import model as model_module
from tacenda_embeddings.varembed.initial_vectors import WordVectors, fit_morphemes
from tacenda_embeddings.varembed.morphemes import Inventory

torch = pytest.importorskip("torch", reason="fitting needs torch (tacenda-embeddings[varembed])")
from tacenda_embeddings.varembed import training  # noqa: E402 - it imports torch
from tacenda_embeddings.varembed.training import (  # noqa: E402
    StreamBatches,
    Trainer,
    bernoulli_kl,
    concatenate,
    exact_loss,
)

TINY = tiny()


def text(n=40):
    line = "the walker walked and the talker talked while walking and talking"
    return [line.split()[i % 5 :] for i in range(n)]


def count_training(monkeypatch):
    """Record every step of training."""
    steps, step = [], Trainer.step

    def counted(self, batch, rate):
        steps.append(rate)
        return step(self, batch, rate)

    monkeypatch.setattr(Trainer, "step", counted)
    return steps


# -- what a word's vector is -----------------------------------------------------------------------


def test_an_unseen_word_has_its_priors_logits(varembed):
    words, state = ["unbefriended", "我walk猫"], varembed.learned
    counts, n_unknown = varembed.inventory.morphemes(words)
    assert n_unknown.tolist() == [1, 2]
    expected = counts.toarray() @ state.morphemes + n_unknown[:, None] * state.unknown
    assert_allclose(varembed.vectors(words, output="logits"), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("word", ["我喜欢猫", "😀", "Привет", "ПРИВЕТ", ""])
def test_a_word_without_a_known_morpheme_has_no_vector_in_any_output(varembed, sumembed, word):
    """The base and the capitals, which all words share, are no knowledge of one."""
    assert varembed.inventory.base
    for output in WORD_OUTPUTS:
        rows = varembed.vectors(["walk", word, word + "ed"], output=output)
        assert not rows[1].any()
        assert rows[[0, 2]].any(axis=1).all()
    for model in (varembed, sumembed):
        assert not model.vectors([word], prior=True).any()
        assert not model.scaled_vectors([word]).any()
        assert not model.transform([[word]])[0].any()
        assert not model.knows(word)
        assert model.knows(word + "ed")
        assert model.knows(model.vocabulary.words[9])
    assert (varembed.entropy([word]) == 1).all()  # nothing is known


def test_words_that_are_remembered_are_bounded_and_the_same(varembed, monkeypatch, tmp_path):
    monkeypatch.setattr(model_module, "_CACHED_WORDS", 10)
    varembed.save(tmp_path / "m")
    model, words = VarEmbed.load(tmp_path / "m"), [f"walk{'ed' * (i % 7)}{i}" for i in range(99)]
    expected = varembed.vectors(words)
    assert_array_equal(model.vectors([*words, *words]), np.concatenate([expected, expected]))
    assert len(model.learned._cached_vectors) <= 10


@pytest.mark.parametrize("token", [["walk"], {}, None, b"walk"])
def test_a_token_that_is_no_string_is_refused(sumembed, token):
    calls = sumembed.knows, sumembed.pieces, lambda it: sumembed.vectors(["walk", it])
    for call in calls:
        with pytest.raises(CorpusError, match=r"not a string.*; tokens must be strings"):
            call(token)


def test_words_without_a_vector_are_not_exported(sumembed, tmp_path):
    n = sumembed.save_word2vec(tmp_path / "v.txt", ["我", "unwalked", "我"])
    words = [line.split()[0] for line in (tmp_path / "v.txt").read_text("utf8").splitlines()[1:]]
    assert len(words) == n
    assert "unwalked" in words
    assert "我" not in words
    with pytest.raises(CorpusError, match="one string"):
        sumembed.save_word2vec(tmp_path / "v.txt", "unwalked")


def test_a_seen_word_has_its_own_vector_and_can_show_its_prior(varembed):
    word = varembed.vocabulary.words[20]
    [own], [prior] = varembed.vectors([word]), varembed.vectors([word], prior=True)
    assert not np.allclose(own, prior)
    assert_allclose(prior, varembed.learned.prior[20] - varembed.learned.morphemes[0], rtol=1e-5)


def test_outputs_are_three_views_of_the_same_posterior(varembed):
    words = [*varembed.vocabulary.words[:30], "unbefriended"]
    logits = varembed.vectors(words, output="logits")
    assert_allclose(varembed.vectors(words, output="probabilities"), expit(logits), rtol=1e-6)
    base = varembed.learned.morphemes[0]
    assert_allclose(varembed.vectors(words, output="log_odds"), logits - base, rtol=1e-5, atol=1e-6)
    for unknown in ("", ["logits"]):
        with pytest.raises(ConfigurationError, match="output must be one of logits"):
            varembed.vectors(words, output=unknown)
    other = varembed.with_output("probabilities")
    assert_array_equal(other.transform([words])[0], varembed.vectors(words, output="probabilities"))


def test_another_output_of_a_rounded_model_is_saved_as_rounded(varembed, tmp_path):
    other = varembed.rounded("int8").with_output("probabilities")
    other.save(tmp_path / "model")
    again = tacenda.load(tmp_path / "model")
    assert other.precision == again.precision == "int8"
    assert again.fitted_on == varembed.fitted_on


def test_sumembed_adds_morphemes_and_a_vector_of_the_words_own(sumembed):
    state = sumembed.learned
    words = sumembed.vocabulary.words[5:25]
    assert_array_equal(sumembed.vectors(words), state.words[5:25])
    assert_allclose(sumembed.vectors(words, prior=True), state.prior[5:25], rtol=1e-6)
    counts, n_unknown = sumembed.inventory.morphemes(["unbefriended"])
    expected = counts.toarray() @ state.morphemes + n_unknown[0] * state.unknown
    assert_allclose(sumembed.vectors(["unbefriended"]), expected, rtol=1e-5, atol=1e-7)


def test_uncertainty_is_in_bits_and_largest_where_nothing_is_known(varembed):
    words = [*varembed.vocabulary.words, "unbefriended", "中文"]
    bits = varembed.entropy(words)
    assert bits.shape == (len(words), varembed.width)
    assert bits.dtype == np.float32
    assert ((bits >= 0) & (bits <= 1)).all()
    assert_array_equal(
        varembed.entropy(["unbefriended"]), varembed.entropy(["unbefriended"], prior=True)
    )


def test_words_of_a_given_vocabulary_that_the_text_lacks_are_taken_for_unseen():
    wide = Corpus.from_sentences([*text(), ["walkable"]])
    narrow = Corpus.from_sentences(text(), vocabulary=wide.vocabulary)
    model = VarEmbed(**TINY).fit(narrow)
    assert_array_equal(model.vectors(["walkable"]), model.vectors(["walkable"], prior=True))


# -- fitting ---------------------------------------------------------------------------------------


def test_training_lowers_the_bound_on_held_out_text(monkeypatch):
    monkeypatch.setattr(training, "LSTM_RATE", 0.02)
    rng = np.random.default_rng(0)

    def lines(n):  # each word calls for the next of a cycle
        begins = rng.integers(0, 12, n)
        return [[f"w{(begin + i) % 12}" for i in range(10)] for begin in begins]

    train = Corpus.from_sentences(lines(300))
    valid = Corpus.from_sentences(lines(30), vocabulary=train.vocabulary)
    settings = tiny(hidden=24, refit_morphemes=False)
    model = VarEmbed(**{**settings, "epochs": 12}, start="random").fit(train, valid)
    evaluations = [value for _, _, value in model.fitted_on["training"]["evaluations"]]
    assert min(evaluations) < 0.6 * np.log(14)
    assert model.figures[0]["value"] == min(evaluations)
    assert model.figures[0]["protocol"] == "held-out text, exact softmax"
    untrained = VarEmbed(**{**tiny(hidden=24), "epochs": 0}, start="random").fit(train, valid)
    assert untrained.figures[0]["value"] > np.log(12)


def test_refitted_morphemes_are_those_of_the_words_of_the_text(corpus, texts):
    text = Corpus.from_sentences(texts[:20], vocabulary=corpus.vocabulary)
    found = VarEmbed(**tiny()).fit(text).learned
    assert not found.trained.all()
    expected = fit_morphemes(found.inventory, found.words, 1.0 * found.trained, 1.0)
    assert_allclose(found.morphemes, expected, rtol=1e-4, atol=1e-5)


def test_divergence_of_the_figures_is_that_of_the_model(corpus, varembed):
    n_tokens = corpus.n_tokens + corpus.n_sentences + 1
    per_token = varembed.divergence().sum() / n_tokens
    assert varembed.figures[0]["divergence per token"] == pytest.approx(per_token, rel=1e-4)


@pytest.fixture
def trainer_of(corpus):
    """A maker of a trainer of all of the corpus, from random vectors, and the stream of its tokens."""
    ids = concatenate(corpus)
    counts = np.bincount(ids, minlength=len(corpus.vocabulary))
    inventory = Inventory.learn(corpus.vocabulary, "unigram", 100, True)
    rng = np.random.default_rng(0)
    words = rng.standard_normal((len(counts), 6)).astype(np.float32)
    morphemes = rng.standard_normal((len(inventory), 6)).astype(np.float32)
    start = WordVectors(inventory, words, morphemes, 1.0)

    def make(model_class=VarEmbed, *, streams, **advanced):
        settings = model_class(**tiny(**advanced)).settings
        return Trainer(settings, start, counts, streams)

    return make, ids, counts, inventory


@pytest.mark.parametrize("kl", ["types", "tokens"])
def test_the_divergence_weighs_once_per_word_over_an_epoch(trainer_of, kl):
    """The losses of all steps of an epoch, with the divergence and without: the difference is that of the words.

    Once per word, or with ``kl="tokens"`` as often as a word occurs, for each of the columns.
    """
    make, ids, counts, _ = trainer_of
    with_it, without = (make(streams=1, softmax="exact", kl=kl) for _ in range(2))
    without._kl_weights.zero_()
    batches = list(StreamBatches(ids, streams=1, length=64).batches(0))
    assert any(len(np.unique(inputs)) < len(inputs) for inputs, _ in batches)
    found = sum(float(with_it.step(b, 0.0).loss - without.step(b, 0.0).loss) for b in batches)
    rows, _, prior = with_it._look_up(torch.arange(len(counts)))
    each = bernoulli_kl(rows.values, prior).detach().double().numpy()
    read = np.bincount(ids[:-1], minlength=len(counts))  # the last token is predicted only
    expected = (read / 6 if kl == "tokens" else read / np.maximum(counts, 1)) @ each
    assert found == pytest.approx(expected, rel=1e-3)


def test_held_out_text_pays_for_the_words_what_the_training_text_does_for_a_token(
    trainer_of, monkeypatch
):
    make, ids, _, _ = trainer_of
    trainer = make(streams=1, softmax="exact")
    trainer.valid = ids[:200]
    bound, divergence = trainer.evaluate(), trainer.divergence()
    monkeypatch.setattr(trainer, "divergence", lambda: 0.0)
    assert bound - trainer.evaluate() == pytest.approx(divergence / len(ids), rel=1e-4)


def test_a_step_descends_the_whole_bound(trainer_of, monkeypatch):
    """Against autograd through plain tables of all words, and AdaGrad and the clipping written out."""
    monkeypatch.setattr(training, "CLIP", 1e9)
    make, ids, counts, inventory = trainer_of
    trainer = make(streams=3, softmax="exact")
    before = {name: table.values.clone() for name, table in trainer.tables.items()}
    lstm = deepcopy(trainer.lstm)
    inputs, targets = (torch.from_numpy(ids[i : i + 24].reshape(8, 3).astype(int)) for i in (0, 5))
    result = trainer.step((inputs.numpy(), targets.numpy()), 0.1)

    A = torch.zeros(len(counts), len(inventory))
    for word in range(len(counts)):
        for piece in inventory.ids[inventory.offsets[word] : inventory.offsets[word + 1]]:
            A[word, piece] += 1
    leaves = {name: table.requires_grad_() for name, table in before.items()}
    g, outputs = leaves["words"], leaves["outputs"]
    hidden = lstm(2 * g[inputs].sigmoid() - 1)[0].reshape(24, -1)
    loss = exact_loss(hidden, targets.reshape(-1), outputs[:, :-1], outputs[:, -1])
    read = np.bincount(inputs.reshape(-1), minlength=len(counts))
    weight = torch.from_numpy((read / np.maximum(counts, 1)).astype(np.float32))
    loss = loss + (weight * bernoulli_kl(g, A @ leaves["morphemes"])).sum()
    loss.backward()
    assert float(result.loss) == pytest.approx(float(loss.detach()), rel=1e-5)
    for ours, theirs in zip(trainer.lstm.parameters(), lstm.parameters(), strict=True):
        assert_allclose(ours.grad, theirs.grad / 24, rtol=1e-3, atol=1e-6)
    for name, leaf in leaves.items():
        rate = 0.1 / (1e-6 + leaf.grad.square().mean(1, keepdim=True)).sqrt()
        expected = (leaf - rate * leaf.grad).detach()
        assert_allclose(trainer.tables[name].values, expected, rtol=1e-3, atol=1e-4, err_msg=name)
        moved = (trainer.tables[name].values != leaf.detach()).any(1)
        if name != "outputs":
            assert 0 < moved.sum() < len(leaf)


def test_the_sampled_loss_of_a_step_is_nearly_the_exact_one(trainer_of):
    """With very many words of noise the sum over them is the normaliser."""
    make, ids, _, _ = trainer_of
    batch = ids[:60].reshape(20, 3).astype(int), ids[1:61].reshape(20, 3).astype(int)
    exact = make(streams=3, softmax="exact").step(batch, 0.0)
    sampled = make(streams=3, negatives=20_000).step(batch, 0.0)
    assert float(sampled.loss) / 60 == pytest.approx(float(exact.loss) / 60, abs=0.02)


def test_words_of_noise_are_drawn_by_the_stated_power_of_their_counts(trainer_of, monkeypatch):
    """Chi-square, which a right draw fails for one in a million seeds."""
    make, ids, counts, _ = trainer_of
    trainer, batch = make(streams=2, negatives=20_000), ids[:4].reshape(2, 2).astype(int)
    asked = []
    rows = trainer.tables["outputs"].rows
    monkeypatch.setattr(trainer.tables["outputs"], "rows", lambda i: asked.append(i) or rows(i))
    trainer.step((batch, batch), 0.0)
    [found] = asked
    assert_array_equal(found[:4], batch.reshape(-1))
    expected = (counts + 1.0) ** 0.75
    expected *= 20_000 / expected.sum()
    drawn = np.bincount(found[4:], minlength=len(counts))
    assert_allclose(trainer._log_expected.exp().numpy(), expected, rtol=1e-5)
    assert expected.min() > 5
    assert chisquare(drawn, expected).pvalue > 1e-6


def test_a_killed_fit_goes_on_to_the_same_model(corpus, tmp_path, monkeypatch):
    settings = {**TINY, "epochs": 2}
    whole = VarEmbed(**settings).fit(corpus)
    steps = count_training(monkeypatch)
    counted = Trainer.step

    def killed(self, batch, rate):
        if len(steps) == n_steps - 3:
            raise KeyboardInterrupt
        return counted(self, batch, rate)

    n_steps = whole.fitted_on["training"]["steps"]
    monkeypatch.setattr(Trainer, "step", killed)
    with pytest.raises(KeyboardInterrupt):
        VarEmbed(**settings).fit(corpus, checkpoints=tmp_path / "c")
    monkeypatch.setattr(Trainer, "step", counted)
    done = len(steps)
    resumed = VarEmbed(**settings).fit(corpus, checkpoints=tmp_path / "c")
    assert 0 < len(steps) - done < n_steps
    words = corpus.vocabulary.words
    assert_array_equal(resumed.vectors(words), whole.vectors(words))


def test_a_checkpoint_of_other_settings_is_refused(corpus, tmp_path):
    VarEmbed(**TINY).fit(corpus, checkpoints=tmp_path / "c")
    with pytest.raises(FittingError, match="hidden"):
        VarEmbed(**tiny(hidden=7)).fit(corpus, checkpoints=tmp_path / "c")


def test_vectors_may_be_given_to_start_from(corpus):
    given = np.random.default_rng(0).standard_normal((len(corpus.vocabulary), 6)).astype(np.float32)
    settings = {**tiny(start_shrinkage=0.0), "epochs": 0}
    model = VarEmbed(**settings, output="logits").fit(corpus, vectors=given)
    found = model.vectors(corpus.vocabulary.words)[corpus.type_counts > 0]
    size = np.sqrt(np.mean(given**2))
    assert_allclose(found, given[corpus.type_counts > 0] / size, rtol=1e-4)
    for wrong in (given[:-1], given * np.inf, [[1.0], [1.0, 2.0]], "numbers"):
        with pytest.raises(ConfigurationError, match=r"must be finite numbers of shape \(\d+, 6\)"):
            VarEmbed(**settings).fit(corpus, vectors=wrong)


def test_morphemes_are_fitted_once_more_to_the_words_as_training_leaves_them(corpus, tmp_path):
    """The posterior is the same, the prior is the regression's; a finished training is gone on from."""
    settings = {**TINY, "output": "logits"}
    once = {**tiny(refit_morphemes=False), "output": "logits"}
    plain = VarEmbed(**once).fit(corpus, checkpoints=tmp_path / "c")
    fitted = VarEmbed(**settings).fit(corpus, checkpoints=tmp_path / "c")
    words = corpus.vocabulary.words
    alike = np.ones(len(words))
    expected = fit_morphemes(plain.inventory, plain.learned.words, alike, 1.0)
    assert_array_equal(fitted.vectors(words), plain.vectors(words))
    assert_allclose(fitted.learned.morphemes, expected, atol=2e-3)
    assert np.abs(expected - plain.learned.morphemes).max() > 0.01
    n_tokens = corpus.n_tokens + corpus.n_sentences + 1
    divergence = fitted.divergence().sum() / n_tokens
    assert fitted.figures[0]["divergence per token"] == pytest.approx(divergence, rel=1e-3)


def test_rare_words_begin_near_their_morphemes(corpus):
    model = VarEmbed(**{**tiny(start_shrinkage=1e9), "epochs": 0}).fit(corpus)
    words = corpus.vocabulary.words
    assert_allclose(model.vectors(words), model.vectors(words, prior=True), atol=1e-4)


def test_random_states_of_torch_are_left_alone(corpus):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    VarEmbed(**TINY).fit(corpus)
    assert_array_equal(torch.rand(3), expected)
