"""VarEmbed and SumEmbed: the way to files, and bad input."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tacenda
from support.varembed import tiny
from tacenda import Corpus
from tacenda.errors import (
    ArtifactError,
    ConfigurationError,
    CorpusError,
    NotFittedError,
    PluginUnavailableError,
)
from tacenda.testing.models import STRANGE
from tacenda_embeddings import SumEmbed, VarEmbed

torch = pytest.importorskip("torch", reason="fitting needs torch (tacenda-embeddings[varembed])")

TINY = tiny()


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["varembed", "sumembed"])
def test_applying_a_saved_model_needs_no_torch(kind, request, tmp_path, monkeypatch):
    model = request.getfixturevalue(kind)
    model.save(tmp_path / "m")
    monkeypatch.setitem(sys.modules, "torch", None)
    loaded = tacenda.load(tmp_path / "m")
    words = ["the", "unbefriended", "中文"]
    assert_array_equal(loaded.vectors(words), model.vectors(words))
    assert loaded.pieces("unbefriended") == model.pieces("unbefriended")


def test_fitting_needs_torch_for_varembed_alone(corpus, sumembed, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        PluginUnavailableError, match=r"pip install 'tacenda-embeddings\[varembed\]'"
    ):
        VarEmbed(**TINY).fit(corpus)
    again = SumEmbed.from_settings(sumembed.settings).fit(corpus)
    assert_array_equal(again.vectors(["walker"]), sumembed.vectors(["walker"]))


def test_morphemes_that_point_nowhere_are_refused(varembed):
    artifact = varembed.to_artifact()
    artifact.arrays["morphemes.word_ids"] = artifact.arrays["morphemes.word_ids"] + 10**6
    with pytest.raises(ArtifactError, match="must hold numbers from"):
        VarEmbed.from_artifact(artifact)


def test_word2vec_text_holds_every_word_once(varembed, tmp_path):
    path = tmp_path / "vectors.txt"
    n = varembed.save_word2vec(path, ["unbefriended", "two words", "the"])
    lines = path.read_text(encoding="utf8").splitlines()
    assert lines[0] == f"{n} {varembed.width}" == f"{len(lines) - 1} 8"
    rows = {line.split(" ")[0]: np.array(line.split(" ")[1:], float) for line in lines[1:]}
    assert len(rows) == n
    assert "unbefriended" in rows
    assert not {"</s>", "<unk>", "two"} & set(rows)
    for word in ("unbefriended", varembed.vocabulary.words[9]):
        assert_allclose(rows[word], varembed.scaled_vectors([word])[0], rtol=1e-4, atol=1e-6)


def test_word2vec_text_may_hold_the_vectors_as_they_are(varembed, tmp_path):
    varembed.save_word2vec(tmp_path / "v.txt", scaled=False)
    word, *row = (tmp_path / "v.txt").read_text(encoding="utf8").splitlines()[5].split(" ")
    assert_allclose(np.array(row, float), varembed.vectors([word])[0], rtol=1e-4, atol=1e-6)


def test_scaled_vectors_point_where_the_others_do(varembed, sumembed):
    for model in (varembed, sumembed):
        words = [*model.vocabulary.words[2:9], "unbefriended"]
        rows, scaled = model.vectors(words), model.scaled_vectors(words)
        assert scaled.dtype == np.float32
        assert_allclose((scaled**2).mean(axis=1), 1, rtol=1e-5)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True) / model.width**0.5
        assert_allclose(rows / lengths, scaled, rtol=1e-4, atol=1e-6)
    assert model.scaled_vectors([]).shape == (0, model.width)


# -- bad input -------------------------------------------------------------------------------------


def test_strange_words_have_finite_vectors(varembed, sumembed):
    words = [*STRANGE, "x" * 10_000, "12,5%", "e\u0301\u0323", "\ud800", "NUM"]
    for model in (varembed, sumembed):
        found = model.vectors(words)
        assert found.shape == (len(words), model.width)
        assert np.isfinite(found).all()


def test_sumembed_has_no_prior_to_weigh():
    with pytest.raises(ConfigurationError, match="SumEmbed has no option 'kl'"):
        SumEmbed(advanced={"kl": "types"})


def test_held_out_text_must_share_the_vocabulary(corpus):
    with pytest.raises(CorpusError, match="held-out"):
        VarEmbed(**TINY).fit(corpus, Corpus.from_sentences([["the", "walker", "walked"]]))


def test_nothing_is_said_of_words_before_fitting():
    model = VarEmbed()
    for act in (lambda: model.vocabulary, lambda: model.pieces("a"), lambda: model.entropy(["a"])):
        with pytest.raises(NotFittedError):
            act()
    assert model.width == 128


def test_start_by_word2vec_asks_for_gensim(corpus, monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'tacenda-embeddings\[word2vec\]'"):
        VarEmbed(**TINY, start="word2vec").fit(corpus)


def test_start_by_word2vec(corpus):
    pytest.importorskip("gensim", reason="start='word2vec' needs gensim")
    model = VarEmbed(**TINY, start="word2vec").fit(corpus)
    assert np.isfinite(model.vectors(corpus.vocabulary.words)).all()


def test_gensim_reads_the_exported_file(varembed, tmp_path):
    models = pytest.importorskip("gensim.models", reason="reads the file with gensim")
    varembed.save_word2vec(tmp_path / "v.txt")
    found = models.KeyedVectors.load_word2vec_format(str(tmp_path / "v.txt"))
    word = varembed.vocabulary.words[9]
    assert_allclose(found[word], varembed.scaled_vectors([word])[0], rtol=1e-4, atol=1e-6)
