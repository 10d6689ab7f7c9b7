from collections import Counter, defaultdict
from itertools import islice

import numpy as np
import pytest

from tacenda.datasets import synthetic_text
from tacenda.errors import ConfigurationError


@pytest.fixture(scope="module")
def text():
    return synthetic_text.generate(6000, seed=0)


@pytest.fixture(scope="module")
def other():
    return synthetic_text.generate(700, seed=1)


def accuracy(tag, sentences):
    pairs = [pair for s in sentences for pair in zip(tag(s.words), s.tags, strict=True)]
    return sum(ours == gold for ours, gold in pairs) / len(pairs)


def test_the_same_seed_gives_the_same_text_and_a_shorter_one_is_its_beginning(text):
    assert synthetic_text.generate(50, seed=0) == text[:50]
    assert synthetic_text.generate(50, seed=1) != text[:50]
    assert list(islice(synthetic_text.sentences(0), 9)) == text[:9]


def test_the_text_of_seed_0_is_the_text_it_has_always_been(text):
    # benchmarks and documentation quote it
    assert (
        " ".join(text[1].words) == "Kirk Hykysse gi plolo rabufult tapul mapalasti suja plopluja ?"
    )


def test_another_language_has_other_words():
    a, b = (
        {w for s in synthetic_text.generate(300, language_seed=n) for w in s.words} for n in (0, 1)
    )
    assert len(a & b) < 0.1 * len(a)


def test_words_tags_and_entities_agree(text):
    language = synthetic_text.language()
    for s in text[:2000]:
        assert len(s.words) == len(s.tags) > 1
        assert all(s.words)
        assert set(s.tags) <= set(language.tags)
        assert s.tags[-1] == "PUNCT"
        assert not s.words[0][0].islower()
        names = [i for e in s.entities for i in range(e.start, e.end)]
        assert names == [i for i, tag in enumerate(s.tags) if tag == "PROPN"]
        assert all(e.label in ("PER", "LOC", "ORG") for e in s.entities)
    lengths = Counter((e.label, e.end - e.start) for s in text for e in s.entities)
    assert set(lengths) == {("PER", 1), ("PER", 2), ("LOC", 1), ("ORG", 2)}


def test_tag_pairs_occur_as_often_as_the_transition_matrix_says(text):
    language = synthetic_text.language()
    index = {tag: i for i, tag in enumerate(language.tags)}
    counts = np.zeros((len(index), len(index)))
    for s in text:
        for a, b in zip(s.tags, s.tags[1:], strict=False):
            counts[index[a], index[b]] += 1
    inner = language.transition[1:, 1:]
    visits = np.linalg.solve(np.eye(len(inner)) - inner.T, language.transition[0, 1:])
    member = np.array([[s.tag == tag for tag in language.tags] for s in language.states[1:]], float)
    expected = member.T @ (visits[:, None] * inner) @ member
    expected /= expected.sum()
    assert (counts[expected == 0] == 0).all()
    error = counts / counts.sum() - expected
    spread = np.sqrt(expected / counts.sum())  # binomial; sentences are dependent, hence 6
    assert (np.abs(error) <= 6 * spread + 1e-12).all()


def test_word_frequencies_fall_like_zipfs(text):
    counts = np.array(sorted(Counter(w for s in text for w in s.words).values(), reverse=True))
    ranks = np.arange(20, 1000)
    slope = np.polyfit(np.log(ranks), np.log(counts[ranks]), 1)[0]
    assert -1.4 < slope < -0.6
    assert (counts == 1).sum() > 0.3 * len(counts)  # many words are seen once


def test_the_word_alone_does_not_tell_every_tag(text, other):
    counts = defaultdict(Counter)
    for s in text:
        for word, tag in zip(s.words, s.tags, strict=True):
            counts[word][tag] += 1
    majority = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
    best_alone = accuracy(lambda words: [majority.get(w, "NOUN") for w in words], other)
    assert 0.85 < best_alone < 0.93


def test_few_labels_leave_many_words_unknown(text, other):
    known = {w for s in text[:250] for w in s.words}
    words = [w for s in other for w in s.words]
    assert 0.2 < sum(w not in known for w in words) / len(words) < 0.5


def test_a_negative_number_of_sentences_is_refused():
    with pytest.raises(ConfigurationError):
        synthetic_text.generate(-1)
    assert synthetic_text.generate(0) == []
