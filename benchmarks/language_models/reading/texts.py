"""The texts that the models of this study are fitted to: novels, Wikipedia, and both, a sentence a line.

All have one vocabulary, the most frequent words of both texts together, so that their models can be mixed and know the
same words.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import parts
from tacenda import Corpus, Vocabulary, datasets
from tacenda.corpus.lines import text_blocks
from tacenda.store import replacing
from tacenda_lm.surprisal.words import sentence_starts

__all__ = ["HELD_OUT_AUTHORS", "TEXTS", "corpora", "held_out", "sentence_file"]

MAX_VOCABULARY = 50_000
TEXTS = ("novels", "wikipedia", "both")
#: All novels of these authors are held out, for the weights of mixtures.
HELD_OUT_AUTHORS = ("Forster", "Hardy")
HELD_OUT_SENTENCES = 8_000  # of each text
_STRAIGHT = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "\ufeff": ""})


def corpora(lines: int) -> dict[str, Corpus]:
    """The three texts; ``lines`` above 0 takes the head of each."""
    files = {name: sentence_file(name) for name in ("novels", "wikipedia")}
    cache = parts.kept_folder() / "corpus-lm-reading"
    both = Corpus.from_text(
        list(files.values()), tokenizer="words", max_vocabulary=MAX_VOCABULARY, cache=cache / "both"
    )
    found = {
        name: Corpus.from_text(
            file, tokenizer="words", vocabulary=both.vocabulary, cache=cache / name
        )
        for name, file in files.items()
    }
    found["both"] = both
    return {name: text.head(lines) if lines else text for name, text in found.items()}


def held_out(vocabulary: Vocabulary) -> Corpus:
    """As many sentences of novels as of Wikipedia, that no model was fitted to."""
    sentences: list[str] = []
    for name in ("held-out-novels", "held-out-wikipedia"):
        with sentence_file(name).open(encoding="utf-8") as stream:
            sentences += [line for line, _ in zip(stream, range(HELD_OUT_SENTENCES), strict=False)]
    return Corpus.from_text(sentences, tokenizer="words", vocabulary=vocabulary)


def sentence_file(name: str) -> Path:
    """The text with a sentence a line, written when it is first needed."""
    path = parts.kept_folder() / f"reading-{name}.txt"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as new, new.open("w", encoding="utf-8") as stream:
            for paragraph in _paragraphs(name):
                stream.writelines(f"{sentence}\n" for sentence in _sentences(paragraph))
    return path


def _sentences(paragraph: str) -> Iterator[str]:
    words = paragraph.translate(_STRAIGHT).split()
    starts = sentence_starts(words, "sentences")
    first = 0
    for i in range(1, len(words) + 1):
        if i == len(words) or starts[i]:
            yield " ".join(words[first:i])
            first = i


def _paragraphs(name: str) -> Iterator[str]:
    """Pieces of a text in which a sentence may run over the end of a line."""
    if name.endswith("wikipedia"):
        files = datasets.locate("wikipedia-good-articles")
        for lines in text_blocks(files["dev" if name.startswith("held-out") else "train"]):
            yield from (line for line in lines if not line.startswith("= "))
        return
    for file, text in _novels(datasets.locate("english-novels")["novels"]):
        if file.startswith(HELD_OUT_AUTHORS) == name.startswith("held-out"):
            # an empty line or an indented one begins a paragraph
            yield from text.replace("\n ", "\n\n").split("\n\n")


def _novels(place: Path) -> Iterator[tuple[str, str]]:
    """File names and texts, sorted."""
    if place.is_dir():
        for path in sorted(place.glob("*.txt")):
            yield path.name, path.read_text(encoding="utf-8-sig")
        return
    with tarfile.open(place) as archive:
        for member in sorted(archive.getmembers(), key=lambda each: each.name):
            stream = archive.extractfile(member) if member.name.endswith(".txt") else None
            if stream is not None:
                with io.TextIOWrapper(stream, encoding="utf-8-sig") as lines:
                    yield Path(member.name).name, lines.read()
