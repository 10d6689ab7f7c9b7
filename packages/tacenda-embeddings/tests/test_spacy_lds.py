"""The real model in the pipeline: the same vectors as without spaCy, on disk, across processes."""

import numpy as np
import pytest
import spacy
import thinc.api
from spacy.training import Example

import tacenda
from support.pipelines import pipeline, reload
from tacenda.datasets import synthetic_text
from tacenda.errors import ConfigurationError
from tacenda_embeddings import LDS
from tacenda_embeddings.spacy import component


@pytest.fixture(scope="module")
def sentences():
    return [list(each.words) for each in synthetic_text.generate(600, seed=1)]


@pytest.fixture(scope="module")
def lds(sentences):
    corpus = tacenda.Corpus.from_sentences(sentences, max_vocabulary=300, oov="classes")
    settings = {"subspace_iterations": 2, "full_iterations": 1}
    return LDS(n_states=6, kappa=5.0, device="cpu", **settings).fit(corpus)


@pytest.fixture
def nlp(lds):
    return pipeline(lds, "lds_embeddings")


def docs_of(nlp, sentences):
    return [spacy.tokens.Doc(nlp.vocab, words=words) for words in sentences]


def test_tensor_equals_the_model_without_spacy(nlp, lds, sentences):
    docs = list(nlp.pipe(docs_of(nlp, sentences[:50])))
    for doc, expected in zip(docs, lds.transform(sentences[:50]), strict=True):
        np.testing.assert_allclose(doc.tensor, expected, atol=1e-6)
        assert doc.tensor.shape == (len(doc), lds.width)


def test_words_are_unknown_to_the_model_as_it_is_fitted_now():
    corpora = (
        tacenda.Corpus.from_sentences([words.split()] * 60)
        for words in ("a cat saw", "the dog ran")
    )
    model = LDS(n_states=2, kappa=5.0).fit(next(corpora))
    nlp = pipeline(model, "lds_embeddings")
    assert [nlp(text).has_vector for text in ("a cat", "the dog")] == [True, False]
    nlp.get_pipe("lds_embeddings").embeddings.fit(next(corpora))
    assert [nlp(text).has_vector for text in ("a cat", "the dog")] == [False, True]


@pytest.mark.parametrize("output", ["own_context", "weighted_mean", "mean", "own", "filtered"])
def test_the_output_is_a_setting_of_the_component(lds, sentences, tmp_path, output):
    nlp = pipeline(lds, "lds_embeddings", output=output)
    [expected] = lds.transform(sentences[:1], output=output)
    assert nlp.get_pipe("lds_embeddings").width == expected.shape[1]
    [doc] = nlp.pipe(docs_of(nlp, sentences[:1]))
    np.testing.assert_allclose(doc.tensor, expected, atol=1e-6)
    again = reload(nlp, tmp_path / "pipeline")
    [loaded] = again.pipe(docs_of(again, sentences[:1]))
    np.testing.assert_array_equal(loaded.tensor, doc.tensor)
    assert lds.settings.output == "own_past_future"


def test_an_output_that_is_not_there_is_named(lds, toy):
    nlp = spacy.blank("en")
    with pytest.raises(ConfigurationError, match="own_past_future"):
        nlp.add_pipe("lds_embeddings", config={"output": "nonsense"}).initialize(artifact=lds)
    other = nlp.add_pipe("token_embeddings", config={"output": "own", "embedder": "toy"})
    with pytest.raises(ConfigurationError, match="only one output"):
        other.initialize(artifact=toy)


def test_the_first_text_finds_everything_prepared(lds, monkeypatch):
    nlp = pipeline(lds.with_output("own_context"), "lds_embeddings")
    monkeypatch.setattr("tacenda_embeddings.lds.model.Smoother", None)
    assert nlp("a word").tensor.any()


def test_component_fits_on_raw_text(sentences, write_file):
    text = write_file("text.txt", "\n".join(map(" ".join, sentences)))
    nlp = spacy.blank("en")
    component = nlp.add_pipe("lds_embeddings")
    component.initialize(
        corpus=text,
        max_vocabulary=200,
        settings={"n_states": 5, "subspace_iterations": 1, "full_iterations": 0},
    )
    assert nlp(" ".join(sentences[0])).tensor.any()
    assert component.embeddings.fitted_on["tokenizer"] == "spacy:en"


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_two_processes_after_the_kernels_are_warm(nlp, sentences, no_child_left):
    texts = [" ".join(words) for words in sentences[:60]]
    warm = list(nlp.pipe(texts))
    parallel = list(nlp.pipe(texts, n_process=2, batch_size=20))
    assert [doc.text for doc in parallel] == texts
    for one, other in zip(warm, parallel, strict=True):
        # batches differ, and with them the order of a matrix product's sums
        np.testing.assert_allclose(one.tensor, other.tensor, atol=1e-5)


def test_command_line_fits_applies_and_shows_pairs(sentences, write_file, tmp_path, run):
    text = write_file("text.txt", "\n".join(map(" ".join, sentences)))
    _, err = run.well(
        "fit", "--text", text, "--output", tmp_path / "lds", "--tokenizer", "whitespace",
        "--n-states", 5, "--set", "subspace_iterations=1", "--set", "output=mean",
        "--max-vocabulary", 200,
    )  # fmt: skip
    assert err.splitlines()[-1].startswith("lds, 5 columns")
    out, _ = run.well("apply", tmp_path / "lds", text)
    assert out.count("\t") == sum(map(len, sentences))
    out, _ = run.well("pairs", tmp_path / "lds", "--pairs", 3, "--words", 4)
    assert len(out.splitlines()) == 3
    assert all(len(line.replace("\t->\t", " ").split()) == 9 for line in out.splitlines())


def test_where_thinc_works_on_a_gpu_the_vectors_are_made_in_its_arrays(
    nlp, lds, sentences, monkeypatch
):
    """`prefer_gpu` is enough, and no array is copied on its way into ``Doc.tensor``; whitespace gets zeros."""
    torch = pytest.importorskip("torch")
    docs = [*docs_of(nlp, sentences[:3]), nlp.make_doc("a  b"), nlp.make_doc("")]
    expected = [doc.tensor for doc in nlp.pipe(doc.copy() for doc in docs)]
    given = []

    def transform_into(self, ids, offsets, arrays, *, output=None):
        given.extend(arrays)
        return original(self, ids, offsets, arrays, output=output)

    original = LDS.transform_into
    monkeypatch.setattr(LDS, "transform_into", transform_into)
    monkeypatch.setattr(component.compat, "has_torch_cuda_gpu", True)
    with thinc.api.use_ops("numpy"):
        thinc.api.set_current_ops(thinc.api.NumpyOps(device_type="gpu"))  # in the host's memory
        found = [doc.tensor for doc in nlp.pipe(docs)]
    assert given
    assert all(isinstance(array, torch.Tensor) for array in given)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert given[0].data_ptr() == found[0].ctypes.data


@pytest.mark.gpu
def test_prefer_gpu_is_enough(lds, sentences):
    """The tensors stay on the device, and are those of the CPU up to rounding."""
    pytest.importorskip("cupy")
    expected = lds.transform(sentences[:20])
    if not spacy.prefer_gpu():
        pytest.skip("needs a CUDA device")
    try:
        nlp = pipeline(lds, "lds_embeddings")
        for doc, rows in zip(nlp.pipe(docs_of(nlp, sentences[:20])), expected, strict=True):
            assert type(doc.tensor).__module__.startswith("cupy")
            np.testing.assert_allclose(doc.tensor.get(), rows, atol=2e-5)
    finally:
        spacy.require_cpu()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_tagger_learns_from_tensors_where_they_lie(lds, sentences, device):
    if device == "cuda" and not (pytest.importorskip("cupy") and spacy.prefer_gpu()):
        pytest.skip("needs a CUDA device")
    try:
        nlp = pipeline(lds, "lds_embeddings", mode="append")
        reader = {"@architectures": "tacenda.DocTensor.v1", "width": lds.width, "projection": 8}
        nlp.add_pipe("tagger", config={"model": {"tok2vec": reader}})
        examples = [
            Example.from_dict(doc, {"tags": ["X" if token.text < "m" else "Y" for token in doc]})
            for doc in docs_of(nlp, sentences[:40])
        ]
        optimizer = nlp.initialize(lambda: examples)
        losses = [
            nlp.update(examples, sgd=optimizer, annotates=["lds_embeddings"])["tagger"]
            for _ in range(10)
        ]
        assert losses[-1] < losses[0]
        module = "cupy" if device == "cuda" else "numpy"
        assert type(nlp(" ".join(sentences[0])).tensor).__module__.startswith(module)
    finally:
        spacy.require_cpu()
