"""``tacenda.MorphologicalVectors.v1``: what spaCy expects of a pipeline's vectors, for words seen and unseen."""

import json
import pickle
import warnings
from copy import deepcopy

import numpy as np
import pytest
import spacy
from numpy.testing import assert_allclose, assert_array_equal
from spacy.ml.staticvectors import StaticVectors
from spacy.tokens import Doc
from spacy.training import Example

from support.pipelines import reload
from tacenda import Corpus
from tacenda.errors import ArtifactError, ConfigurationError
from tacenda_embeddings import LDS, SumEmbed
from tacenda_embeddings.spacy import vectors
from tacenda_embeddings.spacy.vectors import NAME, MorphologicalVectors, use_vectors

pytestmark = pytest.mark.usefixtures("spacy_entry_points")
UNSEEN = "unbefriendedness"


@pytest.fixture
def nlp(varembed):
    nlp = spacy.blank("en")
    use_vectors(nlp, varembed)
    return nlp


def blank():
    return spacy.blank("en", config={"nlp": {"vectors": {"@vectors": NAME}}})


#: A tagger on what spaCy's static vectors say of a word.
TAGGER = {"model": {"tok2vec": {
    "@architectures": "spacy.Tok2Vec.v2",
    "embed": {
        "@architectures": "spacy.MultiHashEmbed.v2", "width": 16, "attrs": ["NORM"], "rows": [50],
        "include_static_vectors": True,
    },
    "encode": {
        "@architectures": "spacy.MaxoutWindowEncoder.v2", "width": 16, "depth": 1, "window_size": 1,
        "maxout_pieces": 2,
    },
}}}  # fmt: skip


def examples(nlp, texts):
    return [
        Example.from_dict(Doc(nlp.vocab, words=words), {"tags": [word[-1] for word in words]})
        for words in texts[:20]
    ]


def test_tokens_have_the_models_vectors(nlp, varembed):
    seen = varembed.vocabulary.words[9]
    doc = Doc(nlp.vocab, words=[seen, UNSEEN, " "])
    assert_array_equal(doc[0].vector, varembed.scaled_vectors([seen])[0])
    assert_array_equal(doc[1].vector, varembed.scaled_vectors([UNSEEN])[0])
    assert doc[0].has_vector
    assert doc[1].has_vector
    assert not doc[2].has_vector
    assert not doc[2].vector.any()
    assert doc.has_vector
    assert_allclose(doc.vector, np.mean([t.vector for t in doc], axis=0), rtol=1e-5)
    assert doc[0].vector_norm == pytest.approx(np.linalg.norm(doc[0].vector), rel=1e-5)


def test_similarity_works_for_words_never_seen(nlp, varembed):
    doc = nlp("cat " + UNSEEN)
    a, b = varembed.scaled_vectors(["cat", UNSEEN])
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert doc[0].similarity(doc[1]) == pytest.approx(cosine, abs=1e-5)
    assert nlp("cat").similarity(nlp(UNSEEN)) == pytest.approx(cosine, abs=1e-5)
    assert nlp.vocab[UNSEEN].similarity(nlp.vocab[UNSEEN]) == pytest.approx(1.0)
    assert -1 <= doc[:1].similarity(doc[1:]) <= 1


def test_meta_describes_them(nlp, varembed):
    described = nlp.meta["vectors"]
    assert described["width"] == varembed.width == nlp.vocab.vectors_length
    assert described["vectors"] == described["keys"] == len(nlp.vocab.vectors)
    assert described["name"] == "tacenda_vectors"
    assert any(each.startswith("tacenda-embeddings") for each in nlp.meta["requirements"])


def test_they_travel_with_the_pipeline_on_disk(nlp, tmp_path):
    loaded = reload(nlp, tmp_path / "p")
    assert isinstance(loaded.vocab.vectors, MorphologicalVectors)
    assert_array_equal(loaded(UNSEEN).vector, nlp(UNSEEN).vector)
    assert loaded.meta["vectors"] == nlp.meta["vectors"]
    assert loaded.vocab.vectors == nlp.vocab.vectors
    assert reload(blank(), tmp_path / "p").vocab.vectors.n_keys == 0


def test_processes_give_the_same_vectors(nlp, no_child_left):
    lines = ["a " + UNSEEN, "the cat saw"] * 3
    for doc, line in zip(nlp.pipe(lines, n_process=2, batch_size=1), lines, strict=True):
        assert_array_equal(doc.vector, nlp(line).vector)


def test_packaged_pipeline_requires_this_distribution(nlp, tmp_path):
    from spacy.cli.package import get_meta

    nlp.to_disk(tmp_path / "p")
    meta = {"name": "x", "version": "1", "spacy_version": ">=3.8", "vectors": {}}
    found = get_meta(tmp_path / "p", meta)
    assert any(each.startswith("tacenda-embeddings>=") for each in found["requirements"])
    assert found["vectors"]["width"] == nlp.vocab.vectors_length


def test_static_vectors_read_them_for_every_word(nlp, varembed):
    docs = [Doc(nlp.vocab, words=["cat", UNSEEN]), Doc(nlp.vocab, words=[" ", "saw"])]
    layer = StaticVectors(nO=5)
    layer.initialize(docs)
    projected = layer.predict(docs).dataXd
    W = layer.get_param("W")
    expected = varembed.scaled_vectors(["cat", UNSEEN, "saw"]) @ W.T
    assert_allclose(projected[[0, 1, 3]], expected, rtol=1e-4, atol=1e-5)
    assert not projected[2].any()


def test_a_training_configuration_may_name_a_pipeline_with_them(nlp, tmp_path):
    nlp.to_disk(tmp_path / "vectors")
    other = blank()
    config = other.config
    config["initialize"]["vectors"] = str(tmp_path / "vectors")
    other.config = config
    other.initialize()
    assert_array_equal(other(UNSEEN).vector, nlp(UNSEEN).vector)


def test_most_similar_words_are_those_with_the_largest_cosine(nlp, varembed):
    table = nlp.vocab.vectors
    words = [nlp.vocab.strings[key] for key in table.keys()]  # noqa: SIM118 - not a mapping
    queries = varembed.scaled_vectors([words[9], UNSEEN, words[2]])
    keys, rows, scores = table.most_similar(queries, batch_size=2, n=5)
    assert keys.shape == rows.shape == scores.shape == (3, 5)
    for query, found, where, cosines in zip(queries, keys, rows, scores, strict=True):
        expected = {}
        for word in words:
            [vector] = varembed.scaled_vectors([word])
            lengths = np.linalg.norm(query) * np.linalg.norm(vector)
            expected[word] = float(query @ vector / lengths)
        assert_allclose(cosines, sorted(expected.values(), reverse=True)[:5], atol=1e-4)
        named = [nlp.vocab.strings[key] for key in found.tolist()]
        assert len(set(named)) == 5
        assert_allclose([expected[word] for word in named], cosines, atol=1e-4)
        assert table.find(keys=found.tolist()).tolist() == where.tolist()
    assert table.most_similar(queries[:0])[0].shape == (0, 1)


def test_rows_are_found_by_keys_and_keys_by_rows(nlp, varembed):
    table = nlp.vocab.vectors
    words = [nlp.vocab.strings[table.find(row=row)] for row in range(len(table))]
    assert len(words) == len(set(words)) == table.n_keys
    assert_array_equal(varembed.scaled_vectors(words), table.data)
    found = table.find(rows=[5, 2, 2])
    assert found.dtype == np.uint64
    assert [nlp.vocab.strings[key] for key in found.tolist()] == [words[5], words[2], words[2]]


def test_keys_of_the_most_similar_words_are_strings_of_the_pipeline(nlp, varembed, tmp_path):
    for each in (nlp, reload(nlp, tmp_path / "p")):
        query = each.vocab.vectors.get_batch([varembed.vocabulary.words[9]])
        keys, *_ = each.vocab.vectors.most_similar(query, n=5)
        words = [each.vocab.strings[key] for key in keys[0].tolist()]
        assert words[0] == varembed.vocabulary.words[9]
        assert set(words) <= set(varembed.vocabulary.words)


def count_words_made(nlp, monkeypatch):
    """Return a list of the words, call by call, that the model is asked for from now on, and what it makes of them."""
    asked, make = [], nlp.vocab.vectors.model.scaled_vectors

    def record(words):
        asked.append(list(words))
        return make(words)

    monkeypatch.setattr(nlp.vocab.vectors.model, "scaled_vectors", record)
    return asked, make


def test_words_never_seen_are_made_once(nlp, monkeypatch):
    asked, make = count_words_made(nlp, monkeypatch)
    keys = [nlp.vocab.strings.add(word) for word in (UNSEEN, "zzzz", UNSEEN)]
    first = nlp.vocab.vectors.get_batch(keys)
    assert_array_equal(nlp.vocab.vectors.get_batch(keys), first)
    assert asked == [[UNSEEN, "zzzz"]]
    assert_allclose(first[:2], make([UNSEEN, "zzzz"]), rtol=1e-6)


def test_words_never_seen_are_kept_up_to_a_number(nlp, monkeypatch):
    """What is kept is let go whole when it would be too much; what is given is the same."""
    monkeypatch.setattr(vectors, "_CACHED_WORDS", 2)
    asked, make = count_words_made(nlp, monkeypatch)
    for batch in ("zza zzb", "zzb zzc", "zzc zzb", "zzd zze zzd zzf", "zza"):
        words = batch.split()
        found = nlp.vocab.vectors.get_batch([nlp.vocab.strings.add(word) for word in words])
        assert_allclose(found, make(words), rtol=1e-6)
        assert len(nlp.vocab.vectors._cached_vectors) <= 2
    assert asked == [["zza", "zzb"], ["zzc"], ["zzb"], ["zzd", "zze", "zzf"], ["zza"]]


def test_one_section_of_a_training_configuration_is_enough(varembed, tmp_path):
    varembed.save(tmp_path / "words")
    config = spacy.blank("en").config
    section = {"@callbacks": "tacenda.use_vectors.v1", "source": str(tmp_path / "words")}
    config["initialize"]["before_init"] = section
    nlp = spacy.util.load_model_from_config(config)
    nlp.initialize()
    nlp.to_disk(tmp_path / "p")
    assert_array_equal(
        spacy.load(tmp_path / "p")(UNSEEN).vector, varembed.scaled_vectors([UNSEEN])[0]
    )


def test_a_configuration_without_room_for_them_is_told_what_to_add(nlp, tmp_path):
    nlp.to_disk(tmp_path / "vectors")
    config = spacy.blank("en").config
    config["initialize"]["vectors"] = str(tmp_path / "vectors")
    other = spacy.util.load_model_from_config(config)
    with pytest.raises(ConfigurationError, match=r"\[nlp.vectors\].*MorphologicalVec.*before_init"):
        other.initialize()


def test_hashes_nobody_knows_have_no_vector(nlp):
    table = nlp.vocab.vectors
    assert 12345 not in table
    assert not table.get_batch([12345]).any()
    with pytest.raises(KeyError):
        table[12345]
    assert table.find(keys=[12345]).tolist() == [-1]


def test_they_cannot_be_changed_word_by_word(nlp):
    for word, vector in (("cat", np.zeros(8, "f")), (UNSEEN, np.ones(8, "f"))):
        with pytest.raises(ConfigurationError, match="that the model knows cannot be changed"):
            nlp.vocab.set_vector(word, vector)


@pytest.mark.parametrize(
    "pair", [("我喜欢猫", "股票市场下跌"), ("😀", "🚗"), ("Привет", "Мир"), ("∑∑", "ππ")]
)
def test_words_without_a_known_morpheme_have_no_vector_and_are_similar_to_nothing(nlp, pair):
    """Capitals are no knowledge of a word either."""
    one, other = (nlp(text) for text in pair)
    for each in (one, one[0], one[:1], nlp.vocab[pair[0]]):
        assert not each.has_vector
        assert not each.vector.any()
    assert one[0].is_oov
    assert nlp.vocab[pair[0]].is_oov
    assert nlp.vocab.strings[pair[0]] not in nlp.vocab.vectors
    with pytest.raises(KeyError):
        nlp.vocab.vectors[pair[0]]
    known = nlp("the cat")
    for a, b in ((one, other), (one[0], other[0]), (one, known), (one[:1], known)):
        with pytest.warns(UserWarning, match="W008"):
            assert a.similarity(b) == 0.0
    assert known.has_vector
    assert not known[0].is_oov
    assert not nlp(UNSEEN)[0].is_oov


def test_a_layer_that_reads_mostly_words_without_a_vector_says_so_once(nlp):
    layer = StaticVectors(nO=4, nM=nlp.vocab.vectors_length)
    layer.initialize()
    doc = Doc(nlp.vocab, words=["猫", "狗", "鸟", "鱼", "cat"] * 250)
    with pytest.warns(
        UserWarning, match=r"of the word vectors does not know 80% of the pipeline's"
    ):
        layer.predict([doc])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer.predict([doc])


def test_a_hash_that_becomes_a_word_has_its_vector(nlp, varembed):
    key = spacy.strings.hash_string(UNSEEN)
    assert key not in nlp.vocab.vectors
    nlp.vocab.strings.add(UNSEEN)
    assert_array_equal(nlp.vocab.vectors[key], varembed.scaled_vectors([UNSEEN])[0])


# -- tokens that are merged, and words that are given a vector ------------------------------------------


def merge(doc, start, stop):
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[start:stop])
    return doc[start]


@pytest.mark.parametrize(
    ("words", "start", "stop"),
    [
        (["the", "cat", UNSEEN, "saw"], 1, 3),
        (["the", "我", "cat"], 1, 3),
        (["a", " ", "cat"], 0, 3),
        ([" ", "\n ", "cat"], 0, 2),
        (["的", "我", "cat"], 0, 2),
    ],
)
def test_a_merged_token_has_the_mean_of_the_vectors_of_its_words(nlp, words, start, stop):
    """As spaCy's own vectors do it: whitespace among the tokens has no part in it, unknown words have zeros."""
    doc = Doc(nlp.vocab, words=words)
    parts = [token.vector for token in doc[start:stop] if token.text.strip()]
    expected = np.mean(parts, axis=0) if parts else np.zeros(nlp.vocab.vectors_length)
    token = merge(doc, start, stop)
    assert len(token.text.split()) == len(parts)
    assert_allclose(token.vector, expected, rtol=1e-5, atol=1e-6)
    assert token.has_vector == bool(expected.any())
    assert_allclose(doc.vector, np.mean([t.vector for t in doc], axis=0), rtol=1e-5, atol=1e-6)


def test_spaces_are_merged_by_spacys_own_components(nlp):
    nlp.add_pipe("merge_entities")
    ruler = nlp.add_pipe("entity_ruler", first=True)
    ruler.add_patterns([{"label": "X", "pattern": [{"IS_SPACE": True}, {"IS_SPACE": True}]}])
    ruler.add_patterns([{"label": "X", "pattern": [{"LOWER": "the"}, {"LOWER": "cat"}]}])
    assert [token.text for token in nlp("saw the cat")] == ["saw", "the cat"]
    assert nlp.vocab["the cat"].has_vector


def test_a_word_that_the_model_does_not_know_can_be_given_a_vector(nlp, varembed, tmp_path):
    width, table = varembed.width, nlp.vocab.vectors
    given = {"我": np.arange(1, width + 1, dtype="f"), "猫": np.full(width, 1 / 3, "f")}
    fitted = table.data.copy()
    for word, vector in given.items():
        nlp.vocab.set_vector(word, vector)
    nlp.vocab.set_vector("猫", 2 * given["猫"])
    given["猫"] = 2 * given["猫"]
    nlp.to_disk(tmp_path / "p")
    copies = [
        nlp,
        spacy.load(tmp_path / "p"),
        blank().from_bytes(nlp.to_bytes()),
        pickle.loads(pickle.dumps(nlp)),  # noqa: S301 - our own
    ]
    for each in copies:
        vectors = each.vocab.vectors
        for word, vector in given.items():
            assert each(word).has_vector
            assert not each(word)[0].is_oov
            assert_array_equal(each.vocab[word].vector, vector)
            assert vectors.find(row=vectors.find(key=word)) == each.vocab.strings[word]
            keys, rows, scores = vectors.most_similar(vector[None], n=1)
            assert each.vocab.strings[int(keys[0, 0])] == word
            assert rows[0, 0] == vectors.find(key=word)
            assert scores[0, 0] == pytest.approx(1)
        assert_array_equal(vectors.data[: len(fitted)], fitted)
        assert vectors.n_keys == len(fitted) + 2
        assert_array_equal(each(UNSEEN).vector, varembed.scaled_vectors([UNSEEN])[0])
        assert each("的")[0].is_oov


def test_hashes_without_a_text_keep_the_vectors_that_they_were_given(nlp, tmp_path):
    given = {key: np.full(nlp.vocab.vectors_length, key % 7, "f") for key in (2**64 - 3, 12345)}
    for key, vector in given.items():
        nlp.vocab.vectors.add(key, vector=vector)
    nlp.to_disk(tmp_path)
    for each in (spacy.load(tmp_path), blank().from_bytes(nlp.to_bytes())):
        for key, vector in given.items():
            assert_array_equal(each.vocab.vectors[key], vector)


def test_words_that_an_older_version_saved_have_their_vectors(nlp, tmp_path):
    nlp.to_disk(tmp_path)
    vector = [0.5] * nlp.vocab.vectors_length
    cfg = tmp_path / "vocab" / vectors.FOLDER / "cfg.json"
    cfg.write_text(json.dumps({"name": None, "added": {"我": vector}}))
    assert spacy.load(tmp_path).vocab["我"].vector.tolist() == vector


@pytest.mark.parametrize("added", [[1], {"我": 1}, {"我": ["a"]}, {"cat": [1]}])
def test_damaged_vectors_of_added_words_are_refused(nlp, added, tmp_path):
    nlp.vocab.set_vector("我", np.ones(nlp.vocab.vectors_length))
    nlp.to_disk(tmp_path)
    cfg = tmp_path / "vocab" / vectors.FOLDER / "cfg.json"
    cfg.write_text(json.dumps({"name": None, "added": added}))
    with pytest.raises(ArtifactError, match="vectors of added words are damaged"):
        spacy.load(tmp_path)


@pytest.mark.parametrize("body", [b"\x01\x02", b"\x01", b"\x91\x01", b"\xff" * 9, b""])
def test_damaged_bytes_of_vectors_with_added_words_are_refused(body):
    with pytest.raises(ArtifactError, match="damaged"):
        MorphologicalVectors().from_bytes(vectors._MAGIC_WITH_ADDED + body)


def test_a_vector_of_zeros_gives_a_word_none(nlp, varembed):
    rows = nlp.vocab.vectors.shape
    nlp.vocab.set_vector("我", np.zeros(varembed.width, "f"))
    assert nlp.vocab.vectors.shape == rows
    assert nlp.vocab["我"].is_oov


# -- all that spaCy's own vectors offer -----------------------------------------------------------------

FLORET = {"bow", "eow", "hash_count", "hash_seed", "maxn", "minn"}  # settings of that mode


def test_everything_public_of_spacys_vectors_is_there(nlp):
    from spacy.vectors import Vectors

    public = {name for name in dir(Vectors) if not name.startswith("_")}
    assert {name for name in public if not hasattr(nlp.vocab.vectors, name)} == FLORET


def test_keys_values_and_items_are_those_of_the_table(nlp, varembed):
    table = nlp.vocab.vectors
    words = [nlp.vocab.strings[key] for key in table.keys()]  # noqa: SIM118 - not a mapping
    expected = varembed.scaled_vectors(words)
    assert_array_equal(list(table.values()), expected)
    assert [key for key, _ in table.items()] == list(table)
    assert_array_equal([vector for _, vector in table.items()], expected)
    assert table.n_keys == len(table) == len(words)


def test_room_can_be_made_but_not_taken(nlp, varembed):
    table = nlp.vocab.vectors
    n, width = table.shape
    before = table.get_batch(["cat", UNSEEN])
    assert table.resize((n + 5, width)) == []
    assert table.shape == (n + 5, width)
    assert table.n_keys == n
    assert len(list(table.values())) == n
    assert_array_equal(table.get_batch(["cat", UNSEEN]), before)
    for shape in ((n - 1, width), (n, width + 1)):
        with pytest.raises(ConfigurationError, match="can have more rows"):
            table.resize(shape)


def test_what_cannot_be_done_is_said_in_a_sentence(nlp, varembed):
    table = nlp.vocab.vectors
    wrong = [
        lambda: table.add("我", row=1),
        lambda: table.add("我"),
        lambda: table.add("我", vector=np.ones(3, "f")),
        lambda: table.add("我", vector=np.full(varembed.width, np.nan)),
        lambda: table.__setitem__("cat", np.ones(varembed.width, "f")),
        lambda: table.find(),
        lambda: table.find(key=1, row=2),
    ]
    for act in wrong:
        with pytest.raises(ConfigurationError, match=r"^[^\n]{20,300}$"):
            act()
    table["我"] = np.ones(varembed.width, "f")
    assert "我" in table


def test_a_model_that_is_fitted_again_leaves_the_vectors_of_a_pipeline_as_they_are(texts, corpus):
    model = SumEmbed(width=8, advanced={"n_morphemes": 200}).fit(corpus)
    nlp = spacy.blank("en")
    use_vectors(nlp, model)
    before = nlp.vocab.vectors.get_batch(["cat", UNSEEN])
    model.fit(Corpus.from_sentences(texts[:50]))
    assert_array_equal(nlp.vocab.vectors.get_batch(["cat", UNSEEN, "unwalkable"])[:2], before)
    again = blank().from_bytes(nlp.to_bytes())
    assert_array_equal(again.vocab.vectors.get_batch(["cat", UNSEEN]), before)


# -- memory zones, copies, processes ----------------------------------------------------------------------


def test_words_of_a_memory_zone_are_forgotten_at_its_end(nlp, varembed):
    table = nlp.vocab.vectors
    _ = nlp(UNSEEN).vector
    before, rows = dict(table._cached_vectors), table.n_keys
    for _ in range(2):
        with nlp.memory_zone():
            words = [f"unfriend{i}" for i in range(50)]
            for word in words:
                assert_array_equal(nlp(word)[0].vector, varembed.scaled_vectors([word])[0])
            assert_array_equal(nlp(UNSEEN)[0].vector, varembed.scaled_vectors([UNSEEN])[0])
            nlp.vocab.set_vector("我", np.ones(varembed.width, "f"))
            assert nlp("我").has_vector
        assert table._cached_vectors.keys() == before.keys()
        assert table.n_keys == rows
    assert_array_equal(nlp("unfriend7")[0].vector, varembed.scaled_vectors(["unfriend7"])[0])


def test_a_deep_copy_has_the_same_vectors_and_words_of_its_own(nlp, varembed):
    twin = deepcopy(nlp.vocab)
    assert_array_equal(twin[UNSEEN].vector, nlp.vocab[UNSEEN].vector)
    twin.set_vector("我", np.ones(varembed.width, "f"))
    assert not nlp.vocab["我"].has_vector


@pytest.mark.parametrize("how", ["from the start", "cleared", "from bytes", "from disk"])
def test_without_a_model_there_are_no_vectors(nlp, how, tmp_path):
    version = nlp.vocab.vectors.version
    if how == "from the start":
        nlp = blank()
    elif how == "cleared":
        nlp.vocab.vectors.clear()
    elif how == "from bytes":
        nlp.vocab.from_bytes(blank().vocab.to_bytes())
    else:
        blank().vocab.to_disk(tmp_path)
        nlp.vocab.from_disk(tmp_path)
    assert how == "from the start" or nlp.vocab.vectors.version > version
    assert nlp.vocab.vectors.shape == (0, 0)
    assert not nlp("cat").has_vector
    assert nlp.vocab.vectors.get_batch(["cat"]).shape == (1, 0)
    assert nlp.vocab.vectors.to_bytes() == b""
    with pytest.raises(ConfigurationError, match=r"added to the word vectors .* has none: name"):
        nlp.vocab.set_vector("cat", np.ones(3, "f"))


def test_a_folder_that_cannot_be_written_is_named(nlp, tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(ArtifactError, match=r"cannot write .*taken"):
        nlp.vocab.vectors.to_disk(tmp_path / "taken")


def test_a_model_of_context_is_refused(corpus):
    lds = LDS(n_states=4, kappa=5.0, subspace_iterations=1, full_iterations=1).fit(corpus)
    with pytest.raises(ConfigurationError, match="varembed or sumembed"):
        use_vectors(spacy.blank("en"), lds)


def test_spacy_init_vectors_reads_the_exported_text(varembed, tmp_path):
    from spacy.training.initialize import convert_vectors

    varembed.save_word2vec(tmp_path / "v.txt")
    nlp = spacy.blank("en")
    convert_vectors(nlp, tmp_path / "v.txt", truncate=0, prune=-1)  # what `spacy init vectors` does
    word = varembed.vocabulary.words[9]
    assert_allclose(
        nlp.vocab[word].vector, varembed.scaled_vectors([word])[0], rtol=1e-4, atol=1e-5
    )


# -- what was trained on them ------------------------------------------------------------------------

MISMATCH = "'tagger' had other vectors in training than the word vectors"


@pytest.fixture(scope="module")
def other(varembed, corpus):
    """A model of the same words and width, with other vectors."""
    return SumEmbed(width=8, seed=5, advanced={"n_morphemes": 200}).fit(corpus)


def trained(nlp, texts):
    nlp.add_pipe("tagger", config=TAGGER)
    optimizer = nlp.initialize(lambda: examples(nlp, texts))
    nlp.update(examples(nlp, texts), sgd=optimizer)
    return nlp


def test_other_vectors_under_a_trained_layer_are_announced(nlp, varembed, other, texts, tmp_path):
    trained(nlp, texts).to_disk(tmp_path / "nlp")
    loaded = spacy.load(tmp_path / "nlp")
    use_vectors(loaded, varembed)
    loaded("cat")
    with pytest.warns(UserWarning, match=MISMATCH):
        use_vectors(loaded, other)
    folder = tmp_path / "nlp" / "vocab" / "morphological_vectors" / "model"
    other.save(folder)
    loaded = spacy.load(tmp_path / "nlp")
    with pytest.warns(UserWarning, match=MISMATCH):
        loaded("cat")


def test_training_anew_on_other_vectors_is_silent(nlp, other, texts, tmp_path, recwarn):
    trained(nlp, texts)
    other.save(tmp_path / "other")
    config = nlp.config
    config["initialize"]["before_init"] = {
        "@callbacks": "tacenda.use_vectors.v1",
        "source": str(tmp_path / "other"),
    }
    nlp.config = config
    optimizer = nlp.initialize(lambda: examples(nlp, texts))
    nlp.update(examples(nlp, texts), sgd=optimizer)
    nlp("cat")
    nlp.to_disk(tmp_path / "nlp")
    spacy.load(tmp_path / "nlp")("cat")
    with nlp.select_pipes(disable=["tagger"]):
        nlp.initialize()
    assert not [each for each in recwarn if "other vectors" in str(each.message)]


def test_a_sourced_layer_without_its_vectors_names_what_is_missing(nlp, texts, tmp_path):
    trained(nlp, texts).to_disk(tmp_path / "nlp")
    config = {
        "nlp": {"lang": "en", "pipeline": ["tagger"], "vectors": {"@vectors": NAME}},
        "components": {"tagger": {"source": str(tmp_path / "nlp")}},
        "initialize": {"vectors": None},
    }
    empty = spacy.util.load_model_from_config(config, auto_fill=True)
    with pytest.raises(ConfigurationError, match=r"which has none: name their model.*sourced"):
        empty("cat")
    config["initialize"]["vectors"] = str(tmp_path / "nlp")
    whole = spacy.util.load_model_from_config(config, auto_fill=True)
    with whole.select_pipes(disable=["tagger"]):
        whole.initialize()
    assert [t.tag_ for t in whole("cat sat")] == [t.tag_ for t in nlp("cat sat")]
