"""`make models` on a small text: the same bytes each time, and what is finished is not made again."""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from tacenda.datasets import synthetic_text
from tacenda.datasets.word_similarity import WordPair

FOLDER = Path(__file__).parents[1]


@pytest.fixture
def data(tmp_path):
    """Files of the names of the real ones, in an invented language."""
    folder = tmp_path / "data"
    text, treebank, pairs = (
        folder / part for part in ("lm/wikipedia-good-articles", "ud/UD_English-EWT", "wordsim")
    )
    for each in (text, treebank, pairs):
        each.mkdir(parents=True)
    for seed, part in enumerate(("train", "dev", "test")):
        sentences = synthetic_text.generate(1500 if part == "train" else 30, seed=seed)
        lines = [" ".join(sentence.words) + " ." for sentence in sentences]
        (text / f"{part}.txt").write_text("= A heading =\n" + "\n".join(lines), encoding="utf8")
        rows = (
            f"{i}\t{word}\t_\t{tag}" + "\t_" * 6 if i else ""
            for sentence in sentences[:20]
            for i, (word, tag) in enumerate(
                [("", ""), *zip(sentence.words, sentence.tags, strict=True)]
            )
        )
        conllu = "\n".join(rows).lstrip() + "\n\n"
        (treebank / f"en_ewt-ud-{part}.conllu").write_text(conllu, encoding="utf8")
    words = list(dict.fromkeys(word for each in sentences for word in each.words))[:8]
    scored = [f"{a}\t{b}\t{i}" for i, (a, b) in enumerate(pairwise(words))]
    (pairs / "EN-WS-353-ALL.txt").write_text("\n".join(scored), encoding="utf8")
    return folder


@pytest.fixture
def make(data, monkeypatch):
    if not (FOLDER / "make.py").exists():
        pytest.skip("the models are made in the repository")
    for needed in ("spacy", "tacenda_lm"):
        pytest.importorskip(needed)
    monkeypatch.setenv("TACENDA_DATA", str(data))
    monkeypatch.syspath_prepend(str(FOLDER))
    import figures
    import make

    monkeypatch.setattr(figures, "SEEDS", (0, 1))
    monkeypatch.setattr(figures, "EPOCHS", 1)

    def run(output, work):
        arguments = ["make.py", "--output", str(output), "--work", str(work)]
        monkeypatch.setattr(sys, "argv", arguments)
        make.main()
        return {
            str(path.relative_to(output)): path.read_bytes()
            for path in output.rglob("*")
            if path.is_file()
        }

    yield run
    for name in ("figures", "make"):
        sys.modules.pop(name, None)


def test_a_text_gives_the_same_bytes_each_time(make, tmp_path, capsys):
    first = make(tmp_path / "a", tmp_path / "work-a")
    assert "README.md" in first
    assert sum(name.endswith("model.json") for name in first) == 3
    assert sum(name.endswith("/README.md") for name in first) == 3
    assert make(tmp_path / "b", tmp_path / "work-b") == first
    assert "* en-lds-small" in capsys.readouterr().out
    assert make(tmp_path / "c", tmp_path / "work-a") == first
    assert "* en-lds-small" not in capsys.readouterr().out


def test_paragraphs_are_cut_after_the_marks_that_end_a_sentence(make):
    from make import split_sentences

    from tacenda import Corpus

    text = ['He said : " No . " ( She left ! ) Why ? !', "Nothing ends here", ". end ."]
    cut = split_sentences(Corpus.from_sentences([line.split() for line in text]))
    assert [" ".join(cut.vocabulary.decode(ids)) for ids in cut] == [
        'He said : " No . "', "( She left ! )", "Why ? !", "Nothing ends here", ".", "end .",
    ]  # fmt: skip


def test_word_similarity_is_spearmans_correlation_of_the_pairs_with_vectors(make):
    import figures

    rng = np.random.default_rng(0)
    vectors = {f"w{i}": rng.normal(size=4).astype("f") for i in range(8)}

    class Model:
        width = 4

        def transform(self, sentences):
            return [np.array([vectors.get(word, np.zeros(4)) for word in s]) for s in sentences]

    pairs = [WordPair(f"w{i}", f"w{j}", float(rng.random())) for i in range(8) for j in range(i)]
    cosines = [
        float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))
        for x, y in ((vectors[pair.first], vectors[pair.second]) for pair in pairs)
    ]
    found, n_pairs = figures._correlate(Model(), [*pairs, WordPair("w1", "nothing", 5.0)])
    assert n_pairs == len(pairs)
    assert found == pytest.approx(spearmanr(cosines, [pair.score for pair in pairs])[0])
