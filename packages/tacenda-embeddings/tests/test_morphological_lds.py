"""`MorphologicalLDS`: words the LDS has never seen, read by their morphemes."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tacenda
from support.plugins import register_missing
from tacenda.datasets import synthetic_text
from tacenda.errors import ConfigurationError, DataError, NotFittedError
from tacenda_embeddings import LDS, SumEmbed, VarEmbed
from tacenda_embeddings.morphological_lds import MorphologicalLDS, _find_stand_ins
from tacenda_embeddings.testing import check_embedder

pytest.importorskip("torch", reason="fitting VarEmbed needs torch")
QUICK = {"n_states": 6, "kappa": 5.0, "subspace_iterations": 2, "full_iterations": 1}
SMALL = {"hidden": 8, "negatives": 32, "batch_streams": 8, "unrolled_tokens": 16}
WORDS = {"width": 8, "epochs": 1, "advanced": SMALL}


def test_it_is_a_sound_embedder():
    check_embedder(lambda: MorphologicalLDS(lds=QUICK, words=WORDS))


@pytest.fixture(scope="module", autouse=True)
def _registered():
    register_missing(VarEmbed, SumEmbed, MorphologicalLDS)


@pytest.fixture(scope="module")
def texts():
    return [list(each.words) for each in synthetic_text.generate(600, seed=2)]


@pytest.fixture(scope="module")
def corpus(texts):
    return tacenda.Corpus.from_sentences(texts, max_vocabulary=250, oov="classes")


@pytest.fixture(scope="module")
def lds(corpus):
    return LDS(**QUICK).fit(corpus)


@pytest.fixture(scope="module")
def words(corpus):
    return VarEmbed(width=8, epochs=1, advanced={**SMALL, "n_morphemes": 200}).fit(corpus)


@pytest.fixture(scope="module")
def model(lds, words):
    return MorphologicalLDS.join(lds, words)


@pytest.mark.parametrize("output", ["own_past_future", "own_context", "mean", "filtered", "own"])
def test_words_of_the_vocabulary_are_read_as_the_lds_reads_them(model, lds, texts, output):
    known = [[w for w in text if w in lds.vocabulary] for text in texts[:20]]
    for found, expected in zip(
        model.transform(known, output=output), lds.transform(known, output=output), strict=True
    ):
        assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("output", ["own_past_future", "mean"])
def test_more_rows_than_words_are_those_of_a_larger_vocabulary(lds, output):
    """Rows handed in that equal those of known words give what the known words give."""
    ids = np.array([30, 41, 7, 30, 12])
    types = len(lds.vocabulary)
    extra = lds.input_rows[[41, 30]]
    moved = np.array([types + 1, types, 7, types + 1, 12])
    [found] = lds.transform_extended([moved], extra, output=output)
    [expected] = lds.transform_ids([ids], output=output)
    assert_allclose(found, expected, atol=1e-5)
    few = np.array([7, 12], np.uint8)
    narrow = lds.transform_extended(
        [few], np.zeros((300, extra.shape[1]), np.float32), output=output
    )
    assert_allclose(narrow, lds.transform_ids([few], output=output), atol=1e-5)
    for word, rows in ((types + 2, extra), (types + 1, extra[:, 1:]), (types, extra.tolist())):
        with pytest.raises(DataError):
            lds.transform_extended([np.array([word])], rows)


def test_it_knows_words_that_one_of_its_models_knows(model, lds, words):
    assert model.knows(lds.vocabulary.words[9])
    assert not lds.knows("unbefriended")
    assert model.knows("unbefriended")
    assert not model.knows("我喜欢猫")


def test_words_of_one_class_differ_by_their_morphemes(model, lds):
    one, two = "unbefriended", "rewalled"
    assert lds.vocabulary.id_of(one) == lds.vocabulary.id_of(two)
    assert_array_equal(lds.transform([[one]])[0], lds.transform([[two]])[0])
    assert not np.allclose(model.transform([[one]])[0], model.transform([[two]])[0], atol=1e-3)


def test_the_map_is_a_ridge_regression_on_vectors_made_of_morphemes(model, lds, words):
    """Words that are read by the map have no others."""

    def unit(rows):
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    vocabulary, n_words = lds.vocabulary, words.inventory.type_counts()
    proper = [w for w in vocabulary.words if w[0] != "<"]
    found = [words.inventory.morphemes([word]) for word in proper]
    is_kept = [not n_unknown[0] and (n_words[m.indices] > 1).all() for m, n_unknown in found]
    kept = list(itertools.compress(proper, is_kept))
    stand_ins = unit(lds.input_rows[_find_stand_ins(vocabulary, kept)])
    X = np.column_stack([np.ones(len(kept)), stand_ins, words.vectors(kept, prior=True)])
    ridge = np.sqrt(1e-3 * np.square(X).sum() / X.shape[1]) * np.eye(X.shape[1])
    Y = np.vstack([unit(lds.input_rows[vocabulary.encode(kept)]), np.zeros((len(ridge), 6))])
    expected = np.linalg.lstsq(np.vstack([X, ridge]), Y, rcond=None)[0]
    assert_allclose(model.learned.map, expected, atol=1e-4)


def test_its_settings_are_those_of_the_two_models(model, lds, tmp_path):
    model.save(tmp_path / "m")
    for each in (model, tacenda.load(tmp_path / "m")):
        assert each.settings.lds.n_states == lds.settings.n_states
        assert each.settings.words == each.words.settings
    assert model.with_output("mean").settings.lds == model.lds.with_output("mean").settings
    assert MorphologicalLDS(lds={"n_states": 7}).with_output("mean").settings.lds.n_states == 7


def test_a_joined_sum_embed_is_refitted_from_the_settings(lds, corpus):
    model = MorphologicalLDS.join(lds, SumEmbed(width=5).fit(corpus))
    for again in (MorphologicalLDS.from_settings(model.settings), model):
        again.fit(corpus)
        assert isinstance(again.words, SumEmbed)
        assert (again.words.width, again.settings) == (5, model.settings)


def test_models_that_share_no_words_are_refused(lds):
    other = tacenda.Corpus.from_sentences([["q1", "q2"]] * 30)
    with pytest.raises(ConfigurationError, match="fit both models to more text"):
        MorphologicalLDS.join(lds, VarEmbed(**WORDS).fit(other))
    with pytest.raises(NotFittedError):
        MorphologicalLDS.join(lds, VarEmbed())
    with pytest.raises(ConfigurationError, match="takes an LDS and then"):
        MorphologicalLDS.join(VarEmbed(), lds)


def test_a_refit_that_fails_leaves_the_model_and_its_parts_as_they_were(lds, words, texts):
    model = MorphologicalLDS.join(lds, words)
    expected, probe = model.to_artifact(), [["An", "unbefriended", "word"]]
    vectors = model.transform(probe)
    with pytest.raises(ConfigurationError, match="fit both models to more text"):
        model.fit([["q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8"]] * 100)
    assert (model.lds, model.words) == (lds, words)
    assert model.fitted_on == expected.fitted_on
    assert_array_equal(model.transform(probe), vectors)


def test_another_output_is_that_of_its_lds(model, texts):
    other = model.with_output("own_context")
    assert other.width == model.lds.with_output("own_context").width != model.width
    expected = model.transform(texts[:5], output="own_context")
    for found, wanted in zip(other.transform(texts[:5]), expected, strict=True):
        assert_array_equal(found, wanted)
    with pytest.raises(ConfigurationError, match="own_past_future"):
        model.with_output("nonsense")


def test_a_text_is_split_as_the_texts_of_both_models_were(run, texts, write_file, tmp_path):
    lines = "\n".join(map(" ".join, texts))
    corpora = [tacenda.Corpus.from_text(lines, tokenizer=name) for name in ("words", "whitespace")]
    lds = LDS(**QUICK).fit(corpora[0])
    for corpus in corpora:
        words = SumEmbed(width=5).fit(corpus)
        MorphologicalLDS.join(lds, words).save(tmp_path / corpus.origin["tokenizer"])
    text = write_file("text.txt", "The dog.\n")
    out, _ = run.well("apply", tmp_path / "words", text)
    assert [line.split("\t")[0] for line in out.splitlines()] == ["The", "dog", ".", ""]
    assert "with different tokenizers" in run.refusal("apply", tmp_path / "whitespace", text)
