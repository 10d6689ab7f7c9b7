"""ConcatEmbed in inference: what the layers say one after another, whatever is kept, and after weights have changed."""

import copy
import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import spacy
from spacy.ml.models.tok2vec import MultiHashEmbed
from spacy.tokens import Doc
from thinc.api import SGD, Adam, Model

from support.pipelines import Letters
from tacenda_embeddings.spacy import fused
from tacenda_embeddings.spacy.concat_embed import concat_embed
from tacenda_embeddings.spacy.doc_tensor import doc_tensor
from tacenda_embeddings.spacy.vectors import MorphologicalVectors

WORDS = ["the", "The", "cat", "cats", "saw", "12", "3,4", "naïve", " ", "."]
WIDTH = 7


@pytest.fixture
def vocab():
    return spacy.blank("en").vocab


def documents(vocab, lengths=(4, 0, 1, 12, 600, 0, 3), seed=0):
    rng = np.random.default_rng(seed)
    docs = []
    for n in lengths:
        doc = Doc(vocab, words=[WORDS[i] for i in rng.integers(0, len(WORDS), n)])
        doc.tensor = rng.normal(size=(n, WIDTH)).astype("f")
        if n:
            doc.tensor[0] = 0
        if n > 2:
            doc[2].norm_ = "another"  # as tokenizer exceptions have, against the word itself
        docs.append(doc)
    return docs


def hashed(static=False, attrs=("NORM", "PREFIX", "SUFFIX", "SHAPE")):
    return MultiHashEmbed(8, list(attrs), [20] * len(attrs), static)


CASES = {
    "words and vectors": lambda: {"hash": hashed(), "lds": doc_tensor(width=WIDTH)},
    "vectors alone": lambda: {"lds": doc_tensor(width=WIDTH, scale=2.0)},
    "vectors as they are": lambda: {"b": hashed(), "a": doc_tensor(width=WIDTH, normalize=False)},
    "columns, twice": lambda: {
        "a": doc_tensor(columns=[1, 4]),
        "hash": hashed(),
        "z": doc_tensor(columns=[2, 7], normalize=False, scale=3.0),
    },
    "words alone": lambda: {"a": hashed(), "b": hashed(attrs=["LOWER"])},
    "a projection": lambda: {"hash": hashed(), "lds": doc_tensor(width=WIDTH, projection=5)},
    "static vectors": lambda: {"hash": hashed(static=True), "lds": doc_tensor(width=WIDTH)},
    "what stands in the text": lambda: {
        "hash": hashed(attrs=["NORM", "SPACY", "IS_SPACE"]),
        "lds": doc_tensor(width=WIDTH),
    },
}


def build(layers, docs, vectors=None):
    spacy.util.fix_random_seed(0)
    if vectors == "model":
        docs[0].vocab.vectors = MorphologicalVectors(strings=docs[0].vocab.strings, model=Letters())
    elif vectors == "table":
        for i, word in enumerate(WORDS[:5]):
            docs[0].vocab.set_vector(word, np.arange(3, dtype="f") + i)
    model = concat_embed(layers, width=10)
    model.initialize(X=docs)
    rng = np.random.default_rng(1)
    for node in model.walk():  # biases and gains are zeros and ones at first
        for name in node.param_names:
            array = node.get_param(name)
            node.set_param(name, array + 0.1 * rng.normal(size=array.shape).astype("f"))
    return model


def layer_by_layer(model, docs):
    """The same from thinc's own layers, all tokens at a time."""
    *embeds, mix = model.layers
    parts = []
    for layer in embeds:
        output = layer.predict(docs)
        parts.append(output.dataXd if hasattr(output, "dataXd") else np.concatenate(output))
    mixed = mix.predict(np.concatenate(parts, axis=1))
    return np.split(mixed, np.cumsum([len(doc) for doc in docs])[:-1])


def assert_as_layers(model, docs):
    found, expected = model.predict(docs), layer_by_layer(model, docs)
    assert [rows.shape for rows in found] == [(len(doc), 10) for doc in docs]
    for rows, others in zip(found, expected, strict=True):
        np.testing.assert_allclose(rows, others, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("vectors", ["model", "table"])
@pytest.mark.parametrize("case", CASES)
def test_it_is_what_the_layers_say(vocab, case, vectors):
    docs = documents(vocab)
    model = build(CASES[case](), docs, vectors)
    for _ in range(2):  # the second time with what was kept
        assert_as_layers(model, docs)
    assert_as_layers(model, documents(vocab, seed=1))
    assert_as_layers(model, docs[2:3])
    assert_as_layers(model, docs[1:2] + docs[5:6] + docs[:1])


def test_documents_without_tokens_have_rows_of_the_right_width(vocab):
    docs = documents(vocab)
    model = build(CASES["words and vectors"](), docs)
    assert [rows.shape for rows in model.predict([docs[1], docs[5]])] == [(0, 10)] * 2


def calls_of_hash_layers(model):
    """Count how many words the hash layers get from now on."""
    calls = []
    for node in list(model.walk()):
        if node.name == "hashembed":
            forward = node._func

            def counted(model, ids, is_train, forward=forward):
                calls.append(len(ids))
                return forward(model, ids, is_train)

            node._func = counted
    return calls


def test_hash_layers_see_every_word_once(vocab):
    docs = documents(vocab)
    model = build(CASES["words and vectors"](), docs)
    model.predict(docs[:1])  # which may look at widths
    calls = calls_of_hash_layers(model)
    assert_as_layers(model, docs)
    seen = sum(calls) - 4 * sum(map(len, docs))  # the oracle sees all tokens
    assert 0 < seen <= 4 * (len(WORDS) + 4)
    calls.clear()
    model.predict(docs)
    assert not calls


@pytest.mark.parametrize("optimizer", [Adam(0.05), SGD(0.05)], ids=["Adam", "SGD"])
def test_training_is_seen_at_once(vocab, optimizer):
    """Also where the optimizer writes into the arrays, and where something is predicted before it does."""
    docs = documents(vocab, (3, 5, 8))
    model = build(CASES["words and vectors"](), docs)
    for _ in range(3):
        assert_as_layers(model, docs)
        before = [rows.copy() for rows in model.predict(docs)]
        outputs, backprop = model.begin_update(docs)
        backprop([np.ones_like(rows) + rows for rows in outputs])
        model.predict(docs)
        model.finish_update(optimizer)
        assert_as_layers(model, docs)
        assert not np.allclose(model.predict(docs)[2], before[2], atol=1e-4)


def test_averages_saved_weights_and_copies_are_seen_at_once(vocab):
    docs = documents(vocab, (3, 5, 8))
    model, other = (build(CASES["words and vectors"](), docs) for _ in range(2))
    key = next((n.id, "W") for n in model.layers[-1].walk() if n.name == "maxout")
    [maxout] = [node for node in model.walk() if (node.id, "W") == key]
    assert_as_layers(model, docs)
    with model.use_params({key: 2 * maxout.get_param("W")}):
        assert_as_layers(model, docs)
    assert_as_layers(model, docs)
    model.from_bytes(other.to_bytes())
    assert_as_layers(model, docs)
    for twin in (model.copy(), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301
        assert isinstance(twin, Model)
        assert twin.attrs["rows"]._cache is None
        assert_as_layers(twin, docs)
    assert b"rows" not in model.to_bytes().partition(b"attrs")[2].partition(b"params")[0]


CHANGES = {
    "one number": lambda array: np.add.at(array.reshape(-1), [-1], 1),
    "signs": lambda array: np.negative(array, out=array),
    "doubled": lambda array: np.multiply(array, 2, out=array),
    "turned round": lambda array: np.copyto(array, array[::-1].copy()),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("layers", ["words and vectors", "static vectors"])
@pytest.mark.parametrize("few", [128, 0], ids=["every token", "distinct words"])
def test_any_weight_changed_in_place_is_seen_at_once(vocab, layers, change, few, monkeypatch):
    monkeypatch.setattr(fused, "_FEW_TOKENS", few)
    docs = documents(vocab, (3, 5, 8))
    model = build(CASES[layers](), docs, "model")
    assert_as_layers(model, docs)
    arrays = [node.get_param(name) for node in model.walk() for name in node.param_names]
    for array in [*arrays, vocab.vectors.data]:
        before = np.concatenate(layer_by_layer(model, docs))
        CHANGES[change](array)
        changed = np.concatenate(layer_by_layer(model, docs))
        assert_as_layers(model, docs)
        if change in ("signs", "doubled") and array is not vocab.vectors.data:
            assert not np.array_equal(before, changed)


def negate_tables(model):
    for node in model.walk():
        if node.has_param("E"):
            np.negative(node.get_param("E"), out=node.get_param("E"))


def test_a_table_changed_while_another_thread_adds_words_is_seen(vocab):
    docs = documents(vocab, (3, 5, 8))
    model = build(CASES["words and vectors"](), docs)
    assert_as_layers(model, docs)
    negate_tables(model)
    with ThreadPoolExecutor(1) as pool:
        with model.attrs["rows"]._lock:
            waiting = pool.submit(assert_as_layers, model, docs)
            time.sleep(0.05)
        waiting.result()
    assert_as_layers(model, docs)


def test_rows_of_tables_that_another_thread_changes_meanwhile_are_not_kept(vocab, monkeypatch):
    many = documents(vocab, (200,))
    model = build(CASES["words alone"](), many)
    assert_as_layers(model, many)
    make_rows, changes = fused.Plan.compute_word_rows, iter([True])

    def change_after(*arguments):
        rows = make_rows(*arguments)
        if next(changes, False):
            negate_tables(model)
            model.predict(many)  # as another thread does
        return rows

    monkeypatch.setattr(fused.Plan, "compute_word_rows", change_after)
    model.predict([Doc(vocab, words=["seldom"])])
    assert_as_layers(model, [Doc(vocab, words=["the", "seldom"] * 100)])


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("shape", [(96,), (1024, 64), (5000, 96)])
def test_digests_see_changes_that_cancel_out_in_a_sum(change, shape):
    array = np.ones(shape, np.float32)
    array[: len(array) // 2] = 3
    other = array.copy()
    CHANGES[change](other)
    assert fused.digest([array]) != fused.digest([other])
    rows = np.arange(8, dtype=np.int32).reshape(2, 1, 4)
    tables = [
        each.reshape(-1, shape[-1] // 8)[[*range(4), *range(-4, 0)]] for each in (array, other)
    ]
    one, two = (fused.digest_rows([np.ascontiguousarray(each)], rows) for each in tables)
    assert one[1] != two[1]


class Longer(Letters):
    def scaled_vectors(self, words):
        return 2 * super().scaled_vectors(words)


def scale_in_place(vocab):
    vocab.vectors.data *= -3


def put_another_model(vocab):
    vocab.vectors = MorphologicalVectors(strings=vocab.strings, model=Longer())


def write_into_the_table(vocab):
    vocab.set_vector("the", np.full(3, 9, "f"))


@pytest.mark.parametrize(
    ("vectors", "change"),
    [("model", scale_in_place), ("model", put_another_model), ("table", write_into_the_table)],
)
def test_vectors_of_a_pipeline_that_change_are_seen_at_once(vocab, vectors, change):
    docs = documents(vocab, (3, 5, 8))
    model = build(CASES["static vectors"](), docs, vectors)
    assert_as_layers(model, docs)
    change(vocab)
    assert_as_layers(model, docs)


class WithoutNumbers(Letters):
    def scaled_vectors(self, words):
        return super().scaled_vectors(words) * [[word.isalpha()] for word in words]


def test_words_that_get_and_lose_a_vector_are_seen_at_once(vocab):
    docs = documents(vocab, (3, 5, 8))
    model = build(CASES["static vectors"](), docs, "model")
    vocab.vectors = MorphologicalVectors(strings=vocab.strings, model=WithoutNumbers())
    vocab.set_vector("77", np.ones(3, "f"))  # makes room for more
    assert_as_layers(model, docs)
    with vocab.vectors.memory_zone():
        vocab.set_vector("12", np.full(3, 2, "f"))
        assert_as_layers(model, docs)
    assert_as_layers(model, docs)
    vocab.set_vector("3,4", np.full(3, -4, "f"))
    assert_as_layers(model, docs)


def test_more_words_than_are_kept(vocab, monkeypatch):
    monkeypatch.setattr(fused, "_CACHE_BYTES", 4 * 30 * 6)
    docs = documents(vocab, (3, 5, 8, 30))
    model = build(CASES["words and vectors"](), docs)
    for i in [0, 1, 2, 3, 0, 2, 1, 3]:
        assert_as_layers(model, docs[i : i + 1])


def test_threads_share_what_is_kept(vocab):
    docs = [documents(vocab, (40, 3, 7), seed=i) for i in range(8)]
    model = build(CASES["words and vectors"](), docs[0])
    expected = [layer_by_layer(model, each) for each in docs]

    def compare(turn):
        j = turn % len(docs)
        for rows, others in zip(model.predict(docs[j]), expected[j], strict=True):
            np.testing.assert_allclose(rows, others, rtol=1e-4, atol=2e-5)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(compare, range(80)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_of_a_process_that_is_just_keeping_something_goes_on(vocab):
    docs = documents(vocab, (3, 5, 8))
    model = build(CASES["words and vectors"](), docs)
    expected = layer_by_layer(model, docs)
    with model.attrs["rows"]._lock:
        child = os.fork()
        if not child:
            same = all(
                np.allclose(*pair, atol=2e-5)
                for pair in zip(model.predict(docs), expected, strict=True)
            )
            os._exit(0 if same else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
