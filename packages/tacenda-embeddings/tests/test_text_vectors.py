"""Comparing a model with another form of it, on vectors of which the answer is known."""

import numpy as np
import pytest

from tacenda import Vocabulary
from tacenda.errors import DataError
from tacenda.vocabulary import Normalization
from tacenda_embeddings.text_vectors import compare, nearest_words


class Table:
    """A vector for each word, zeros for any other."""

    def __init__(self, normalization=Normalization(), **vectors):  # noqa: B008
        self.vectors = {word: np.array(row, np.float32) for word, row in vectors.items()}
        self.normalization = normalization
        self.vocabulary = Vocabulary.from_words(vectors, normalization)
        self.width = len(next(iter(self.vectors.values())))

    def transform(self, sentences):
        zero = np.zeros(self.width, np.float32)
        rows = [
            [self.vectors.get(self.normalization(word), zero) for word in words]
            for words in sentences
        ]
        return [np.array(each, np.float32).reshape(len(each), self.width) for each in rows]


def test_cosines_of_words_are_those_of_their_rows():
    found = compare(Table(a=[1, 0], b=[0, 2]), Table(a=[2, 0], b=[3, 3]))
    assert (found.n_vectors, found.of) == (2, "words")
    assert found.mean == pytest.approx((1 + 0.5**0.5) / 2)
    assert found.least == pytest.approx(0.5**0.5)


def test_vectors_that_the_other_model_lost_have_cosine_0():
    model, other = Table(a=[1, 0], b=[0, 2], c=[0, 0]), Table(a=[2, 0], b=[0, 0], c=[1, 0])
    assert compare(model, other) == (0.5, 0.0, 2, "words")


def test_a_word_without_a_vector_has_no_neighbours():
    model = Table(a=[1, 0], b=[0, 2])
    assert nearest_words(model, "a", 5) == [("b", 0.0)]
    with pytest.raises(DataError, match="'nothing' has no vector"):
        nearest_words(model, "nothing", 5)


@pytest.mark.parametrize(("word", "other"), [("Su", "NUM"), ("su", "NUM"), ("1987", "su")])
def test_a_word_is_not_its_own_neighbour_however_it_is_spelled(word, other):
    model = Table(normalization=Normalization(digits=True, lowercase=True), su=[1, 0], NUM=[1, 1])
    assert [found for found, _ in nearest_words(model, word, 9)] == [other]


def test_words_in_angle_brackets_are_words_unless_the_vocabulary_reserves_them():
    model = Table(**{"a": [1, 0], "<URL>": [1, 1], "<unk>": [1, 0]})
    assert [word for word, _ in nearest_words(model, "a", 5)] == ["<URL>"]


def test_cosines_of_a_text_count_its_tokens_that_have_vectors(write_file):
    text = write_file("text.txt", "a a nothing\n\nb\n")
    model = Table(a=[1, 0], b=[0, 2])
    assert compare(model, model, text).n_vectors == 3
    text.write_text("nothing\n", encoding="utf8")
    with pytest.raises(DataError, match="no vectors"):
        compare(model, model, text)
