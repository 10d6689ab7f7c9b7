"""RecurrentLM from the artefact of an LDS: the two packages meet in the artefact alone."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from support import texts
from support.processes import command_line, output_of
from tacenda import Corpus, artifact
from tacenda.errors import ArtifactError, ConfigurationError, FittingError
from tacenda_embeddings import LDS
from tacenda_embeddings.lds import solve_steady_state
from tacenda_lm import KneserNey, RecurrentLM
from tacenda_lm.recurrent import lds_start
from tacenda_lm.recurrent.lds_start import LinearSystem
from tacenda_lm.recurrent.network import Network, predict, run

SMALL = {"width": 6, "streams": 4, "window_words": 5, "epochs": 2}


def text(n=400, seed=0, vocabulary=None):
    return Corpus.from_sentences(texts.text(n, seed), vocabulary=vocabulary)


@pytest.fixture(scope="module", params=["full", "diagonal"])
def lds(request):
    return LDS(n_states=6, threads=1, advanced={"noise": request.param}).fit(text())


@pytest.fixture(scope="module")
def folder(lds, tmp_path_factory):
    path = tmp_path_factory.mktemp("lds") / "model"
    lds.save(path)
    return path


def filtered(model, words):
    """x_t = (A - K C A) x_{t-1} + K w_t in the coordinates of C, and W^{-1} C A x_t over mu, from the parameters."""
    fitted = model.learned
    A, C = fitted.parameters.A, fitted.parameters.C
    state = solve_steady_state(fitted.parameters)
    K = state.gain.K_c @ state.gain.C_hat.T
    np.testing.assert_allclose(state.F, A - K @ C @ A, atol=1e-6)
    x, found = np.zeros(len(A)), []
    for word in words:
        whitened = -fitted.mean.copy()
        whitened[word] += fitted.scale[word]
        x = state.F @ x + K @ whitened
        found.append(fitted.scale * (C @ A @ x))
    return np.array(found)


def test_the_system_of_an_artefact_is_the_filter_of_the_lds(lds, folder):
    vocabulary = lds.vocabulary
    system = LinearSystem.load(str(folder), vocabulary)
    words = np.random.default_rng(0).integers(0, len(vocabulary), 15)
    predicted = system.filter_words(words[:, None])[:, 0] @ system.outputs.T
    expected = filtered(lds, words)
    np.testing.assert_allclose(predicted, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


def test_the_network_does_what_the_system_does_where_it_is_nearly_linear(lds, folder, monkeypatch):
    """The scores of words differ from g times the system's by the third order of the spread."""
    corpus = text()
    ids = np.concatenate(list(corpus.stream())).astype(np.int32)
    system = LinearSystem.load(str(folder), corpus.vocabulary)
    frequencies = (corpus.type_counts + 1.0) / (corpus.type_counts + 1.0).sum()
    words, errors = ids[:40], []
    linear = system.filter_words(words[:, None])[:, 0] @ system.outputs.T
    for spread in (0.4, 0.2):
        monkeypatch.setattr(lds_start, "_SD_OF_Z", spread)
        network = Network(*system.start_network(ids, frequencies))
        states, last = run(network, words, np.array([0, 40]), np.zeros((1, 6), np.float32))
        h = np.concatenate([states[1:], last])
        scores = h @ network.outputs[:, :-1].T + network.outputs[:, -1] - np.log(frequencies)
        g = (scores * linear).sum() / (linear**2).sum()
        assert g > 0.05
        errors.append(np.abs(scores - g * linear).max() / np.abs(g * linear).max())
    assert errors[0] < 0.1
    assert errors[1] < 0.35 * errors[0]


def test_the_start_is_scaled_so_that_the_text_is_most_probable(lds, folder):
    """g maximizes the likelihood of SoftMax(log mu + g s), by another optimizer; C of the network has it."""
    corpus = text()
    system = LinearSystem.load(str(folder), corpus.vocabulary)
    ids = np.concatenate(list(corpus.stream())).astype(np.int32)
    log_mu = np.log((corpus.type_counts + 1.0) / (corpus.type_counts + 1.0).sum())
    x = system.filter_words(ids[:600, None])[:-1, 0]
    s = x @ system.outputs.T

    def loss(g):
        return -log_softmax(log_mu + g * s, axis=1)[np.arange(599), ids[1:600]].sum()

    best = minimize_scalar(loss, bounds=(0, 4), method="bounded", options={"xatol": 1e-6}).x
    found = lds_start._find_scale(x, system.outputs, ids[1:600], log_mu)
    assert found == pytest.approx(best, abs=1e-3)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lds_start, "SCORES_PER_BLOCK", 7 * len(log_mu))
        in_blocks = lds_start._find_scale(x, system.outputs, ids[1:600], log_mu)
        assert in_blocks == pytest.approx(found, abs=1e-9)
        outputs = []
        for g in (1.0, 2.5):
            patched.setattr(lds_start, "_find_scale", lambda *_, g=g: g)
            outputs.append(Network(*system.start_network(ids, np.exp(log_mu))).outputs)
    np.testing.assert_allclose(outputs[1][:, :-1], 2.5 * outputs[0][:, :-1], rtol=1e-6)
    np.testing.assert_allclose(outputs[1][:, -1], log_mu, rtol=1e-6)


def test_it_begins_better_than_word_frequencies_and_learns(folder):
    valid = text(60, 1, text().vocabulary)
    unigram = KneserNey(order=1).fit(text()).perplexity(valid).value
    start = RecurrentLM(**{**SMALL, "epochs": 0}, lds=str(folder)).fit(text())
    begun = start.perplexity(valid, context="stream").value
    assert begun < 0.95 * unigram
    model = RecurrentLM(**SMALL, lds=str(folder)).fit(text(), valid=valid)
    assert model.perplexity(valid, context="stream") < begun
    probabilities = np.exp(predict(start.network, np.full((1, 6), 0.3, np.float32)))
    assert probabilities.sum() == pytest.approx(1, abs=1e-5)


def test_words_that_the_lds_does_not_know_are_like_its_unknown_ones(lds, folder):
    corpus = Corpus.from_sentences([["w1", "strange", "w2"], ["w3", "stranger"]])
    system = LinearSystem.load(str(folder), corpus.vocabulary)
    known, unknown = lds.vocabulary, lds.vocabulary.unknown_id
    whole = LinearSystem.load(str(folder), known)
    for word, row in zip(corpus.vocabulary.words, system.inputs, strict=True):
        own = known.id_of(word)
        assert (own == unknown) == (word in ("strange", "stranger", "<unk>"))
        np.testing.assert_array_equal(row, whole.inputs[own])


def test_a_fitted_model_needs_its_lds_no_more(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "lds")
    model = RecurrentLM(**SMALL, lds=str(copy)).fit(text())
    model.save(tmp_path / "lm")
    shutil.rmtree(copy)
    again = RecurrentLM.load(tmp_path / "lm")
    assert again.perplexity("w1 w2 w3").value == model.perplexity("w1 w2 w3").value


def test_a_checkpoint_of_another_start_is_refused(folder, tmp_path):
    RecurrentLM(**SMALL, lds=str(folder)).fit(text(), checkpoints=tmp_path / "fit")
    with pytest.raises(FittingError):
        RecurrentLM(**SMALL).fit(text(), checkpoints=tmp_path / "fit", resume=True)


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_a_compact_lds_gives_nearly_the_same_start(lds, folder, precision, tmp_path):
    lds.save(tmp_path / "lds", precision=precision)
    whole, compact = (
        LinearSystem.load(str(path), lds.vocabulary) for path in (folder, tmp_path / "lds")
    )
    for part, other in zip(whole[:3], compact[:3], strict=True):
        np.testing.assert_allclose(part, other, rtol=0, atol=0.02 * np.abs(part).max())


def test_what_is_no_lds_is_refused(folder, tmp_path):
    KneserNey(order=1).fit(text()).save(tmp_path / "ngrams")
    cases = {
        tmp_path / "nothing": (ArtifactError, "nothing"),
        tmp_path / "ngrams": (ConfigurationError, "holds a model 'kneser_ney'"),
        folder: (ConfigurationError, "width is 7, and the LDS .* has 6 states: give width=6"),
    }
    for path, (error, said) in cases.items():
        with pytest.raises(error, match=said):
            RecurrentLM(**{**SMALL, "width": 7}, lds=str(path)).fit(text())


@pytest.mark.parametrize("factor", [1e6, 30.0])
def test_an_lds_whose_filter_grows_is_refused(folder, factor, tmp_path):
    found = artifact.read(folder)
    arrays = {**found.arrays, "forward": found.arrays["forward"] * np.float32(factor)}
    artifact.write(tmp_path / "wild", replace(found, arrays=arrays))
    with pytest.raises(ArtifactError, match="unstable: the largest eigenvalue"):
        RecurrentLM(**SMALL, lds=str(tmp_path / "wild")).fit(text())


def test_the_command_line_names_the_lds(folder, tmp_path, monkeypatch, capsys):
    (tmp_path / "text").write_text("w1 w2 w3\n" * 40)
    paths = "--text", tmp_path / "text", "--output", tmp_path / "lm", "--lds", folder
    run = command_line(monkeypatch, capsys, "lm", "fit", "--model", "recurrent", *paths)
    run.well("--set", "epochs=1", "--set", "width=6")
    assert RecurrentLM.load(tmp_path / "lm").settings.lds == str(folder)
    status, _, err = run("--force")
    assert status == 1
    assert "has 6 states: give width=6" in err.splitlines()[-1]
    assert "Traceback" not in err


@pytest.mark.parametrize("name", ["A", "C", "forward", "filter", "Xi", "table", "scale"])
@pytest.mark.parametrize("fault", ["missing", "shape", "nan", "zero"])
def test_a_damaged_lds_is_refused_or_harmless(folder, tmp_path, name, fault):
    found = artifact.read(folder)
    arrays = {key: array.copy() for key, array in found.arrays.items()}
    if fault == "missing":
        del arrays[name]
    elif fault == "shape":
        arrays[name] = arrays[name][..., :-1].copy()
    elif fault == "nan":
        arrays[name].flat[0] = np.nan
    else:
        arrays[name][...] = 0
    artifact.write(tmp_path / "lds", replace(found, arrays=arrays))
    model = RecurrentLM(**{**SMALL, "epochs": 0}, lds=str(tmp_path / "lds"))
    if fault == "zero" and name != "filter":
        assert np.isfinite(model.fit(text()).perplexity("w1 w2").value)
    else:
        with pytest.raises(ArtifactError, match="cannot start from the LDS"):
            model.fit(text())


def test_the_start_reads_the_artefact_without_the_embeddings_package(folder, tmp_path):
    (tmp_path / "text").write_text((" ".join(f"w{i % 12}" for i in range(9)) + "\n") * 20)
    source = (
        "import sys\nsys.modules['tacenda_embeddings'] = None\n"
        "from pathlib import Path\nfrom tacenda_lm import RecurrentLM\n"
        "RecurrentLM(width=6, epochs=1, lds=sys.argv[1]).fit(Path(sys.argv[2])).save(sys.argv[3])\n"
    )
    output_of("-c", source, folder, tmp_path / "text", tmp_path / "lm")
    assert (tmp_path / "lm" / "model.json").exists()
