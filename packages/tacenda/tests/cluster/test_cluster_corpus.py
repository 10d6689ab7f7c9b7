"""A text on a cluster has the vocabulary and the ids of the same text on one machine."""

import numpy as np
import pytest

from tacenda import Corpus
from tacenda.errors import ConfigurationError, CorpusError
from tacenda.vocabulary import Vocabulary

pytest.importorskip("distributed", reason="needs tacenda[dask]")

from distributed import Client

from tacenda.dask import ClusterCorpus

TEXT = "The cat sat , 12 times\n\nthe dog 7 <unk> ran\n\u00c4rger the the\r\nzebra\n" * 30


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8", newline="")
    return path


def assert_same(there, here):
    parts = [future.result() for future in there.parts]
    assert np.array_equal(np.concatenate([part.ids for part in parts]), here.ids)
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    assert np.array_equal(lengths, np.diff(here.offsets))
    assert there.vocabulary == here.vocabulary
    assert (there.n_tokens, there.n_sentences) == (here.n_tokens, here.n_sentences)
    assert there.part_tokens == [len(part.ids) for part in parts]
    assert np.array_equal(there.type_counts, here.type_counts)
    assert there.origin == here.origin


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_vocabulary": 5, "min_count": 31},
        {"digits": True, "lowercase": True, "oov": "classes", "max_vocabulary": 3},
        {"oov": "learned", "max_vocabulary": 3, "min_class_count": 2},
        {"tokenizer": "words", "marks": "skip"},
    ],
    ids=str,
)
@pytest.mark.parametrize("partition_bytes", [150, 10**6])
def test_vocabulary_ids_and_facts_are_those_of_a_corpus(client, file, options, partition_bytes):
    there = ClusterCorpus.from_text(file, client=client, partition_bytes=partition_bytes, **options)
    assert_same(there, Corpus.from_text(file, **options))
    assert str(len(there.parts)) in repr(there)


def test_a_given_vocabulary_is_used_as_it_is(client, file):
    vocabulary = Vocabulary.from_words(["the", "cat"])
    there = ClusterCorpus.from_text(file, client=client, vocabulary=vocabulary, partition_bytes=300)
    assert_same(there, Corpus.from_text(file, vocabulary=vocabulary))


def test_the_current_client_is_used(client, file):
    with client.as_current():
        assert ClusterCorpus.from_text(str(file)).client is client


def test_a_tokenizer_that_is_a_function_is_sent_along(client, file):
    def letters(line):
        return list(line.replace(" ", ""))

    there = ClusterCorpus.from_text(file, client=client, tokenizer=letters, partition_bytes=300)
    assert_same(there, Corpus.from_text(file, tokenizer=letters))


def test_text_that_was_not_tokenized_brings_the_warning(client, write_file):
    path = write_file("running.txt", "yes, this is text, is it not?\n" * 100)
    with pytest.warns(UserWarning, match=r"seems not to be tokenized"):
        ClusterCorpus.from_text(path, client=client)


def test_json_lines_are_read_in_parts_as_in_one_piece(client, write_file):
    path = write_file(
        "text.jsonl", "\n".join(f'{{"text": "a b{i % 7}\\nc", "body": "d"}}' for i in range(100))
    )
    for more in ({}, {"text_field": "body"}):
        there = ClusterCorpus.from_text(path, client=client, partition_bytes=300, **more)
        assert_same(there, Corpus.from_text(path, **more))


def test_without_an_open_client_that_is_the_error(client, file):
    with pytest.raises(ConfigurationError, match="no current Dask client"):
        ClusterCorpus.from_text(file)
    with Client(client.scheduler, set_as_default=False) as closed:
        pass
    for each in ("tcp://host:8786", client.cluster, closed):
        with pytest.raises(ConfigurationError, match="not an open Dask client"):
            ClusterCorpus.from_text(file, client=each)


def test_a_text_without_tokens_is_a_clear_error(client, write_file):
    path = write_file("empty.txt", "\n \n")
    for options in ({}, {"oov": "learned"}, {"vocabulary": Vocabulary.from_words(["a"])}):
        with pytest.raises(CorpusError, match=r"no tokens in empty.txt"):
            ClusterCorpus.from_text(path, client=client, **options)


def test_what_a_worker_cannot_read_is_an_error_of_the_client(client, write_file):
    path = write_file("bad.txt", b"good\n\xff\n")
    with pytest.raises(CorpusError, match=r"bad.txt is not utf-8 at line 2"):
        ClusterCorpus.from_text(path, client=client)
    with pytest.raises(CorpusError, match="contradicts the given vocabulary"):
        ClusterCorpus.from_text(
            path, client=client, vocabulary=Vocabulary.from_words(["a"]), lowercase=True
        )
