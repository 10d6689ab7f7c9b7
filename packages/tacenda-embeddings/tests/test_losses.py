"""What a compact form loses, on vectors of which the answer is known."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from tacenda import Vocabulary
from tacenda.datasets.conllu import Sentence
from tacenda.datasets.word_similarity import WordPair
from tacenda.errors import DataError
from tacenda_embeddings import losses


class Table:
    """A vector for each word, zeros for any other."""

    def __init__(self, **vectors):
        self.vectors = {word: np.array(row, np.float32) for word, row in vectors.items()}
        self.vocabulary = Vocabulary.from_words(vectors)
        self.width = len(next(iter(self.vectors.values())))

    def transform(self, sentences):
        zero = np.zeros(self.width, np.float32)
        rows = [[self.vectors.get(word, zero) for word in words] for words in sentences]
        return [np.array(each, np.float32).reshape(len(each), self.width) for each in rows]


def tagged(text):
    words, tags = zip(*(each.split("/") for each in text.split()), strict=True)
    n = len(words)
    return Sentence(words, tags, ("_",) * n, (-1,) * n, ("_",) * n, text, (True,) * n, None)


def test_cosines_of_words_are_those_of_their_rows():
    found = losses.cosines(Table(a=[1, 0], b=[0, 2]), Table(a=[2, 0], b=[3, 3]), None, "whitespace")
    assert (found.n_vectors, found.of) == (2, "words")
    assert found.mean == pytest.approx((1 + 0.5**0.5) / 2)
    assert found.least == pytest.approx(0.5**0.5)


def test_cosines_of_a_text_count_its_tokens_that_have_vectors(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a a nothing\n\nb\n", encoding="utf8")
    model = Table(a=[1, 0], b=[0, 2])
    assert losses.cosines(model, model, text, "whitespace").n_vectors == 3
    text.write_text("nothing\n", encoding="utf8")
    with pytest.raises(DataError, match="no vectors"):
        losses.cosines(model, model, text, "whitespace")


def test_similarity_is_spearmans_correlation_of_the_pairs_with_vectors():
    rng = np.random.default_rng(0)
    model = Table(**{f"w{i}": rng.normal(size=4) for i in range(8)})
    pairs = [WordPair(f"w{i}", f"w{j}", float(rng.random())) for i in range(8) for j in range(i)]
    cosines = [
        float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))
        for x, y in ((model.vectors[p.first], model.vectors[p.second]) for p in pairs)
    ]
    found = losses.similarity(model, [*pairs, WordPair("w1", "nothing", 5.0)])
    assert found.n_pairs == len(pairs)
    assert found.correlation == pytest.approx(spearmanr(cosines, [p.score for p in pairs])[0])
    with pytest.raises(DataError, match="three pairs"):
        losses.similarity(model, pairs[:2])


def test_tags_that_vectors_separate_are_all_found_and_others_are_not():
    model = Table(a=[1, 0], b=[0, 1], c=[1, 1])
    train = [tagged("a/X b/Y"), tagged("c/Z b/Y a/X"), tagged("a/X c/Z")]
    assert losses.tagging_accuracy(model, train, [tagged("b/Y c/Z a/X")]) == 1.0
    assert losses.tagging_accuracy(model, train, [tagged("a/X b/X")]) == 0.5
    assert losses.tagging_accuracy(model, train, [tagged("a/never b/Y")]) == 0.5


def test_tagging_is_ridge_regression():
    rng = np.random.default_rng(1)
    model = Table(**{f"w{i}": rng.normal(size=3) for i in range(12)})
    text = [f"w{i}/T{rng.integers(3)}" for i in rng.integers(12, size=60)]
    sentences = [tagged(" ".join(text[i : i + 6])) for i in range(0, 60, 6)]
    X = np.array([[*model.vectors[word], 1] for each in sentences for word in each.words])
    names = sorted({tag for each in sentences for tag in each.upos})
    Y = np.array([[tag == name for name in names] for each in sentences for tag in each.upos])
    root = np.sqrt(1e-3 * np.trace(X.T @ X) / 4)
    W = np.linalg.lstsq(
        np.vstack([X, root * np.eye(4)]), np.vstack([Y, np.zeros((4, 3))]), rcond=None
    )[0]
    right = (X @ W).argmax(axis=1) == Y.argmax(axis=1)
    assert losses.tagging_accuracy(model, sentences, sentences) == pytest.approx(right.mean())


@pytest.mark.parametrize(("train", "test"), [([], ["a/X"]), (["a/X"], [])])
def test_without_sentences_there_is_no_accuracy(train, test):
    with pytest.raises(DataError, match="tagged sentences"):
        losses.tagging_accuracy(Table(a=[1]), map(tagged, train), map(tagged, test))
