"""The texts that the models of this study are fitted to: novels, Wikipedia, and both, a paragraph a line.

All have one vocabulary, that of `benchmarks.language_models.scale`, so that their models can be mixed and know the same
words, and its n-grams of Wikipedia are used here too.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from benchmarks import kept
from benchmarks.language_models import scale
from tacenda import Corpus, Vocabulary, datasets
from tacenda.store import replacing

#: All novels of these authors are held out, for the weights of mixtures.
HELD_OUT_AUTHORS = ("Forster", "Hardy")
HELD_OUT_PARAGRAPHS = 3_000  # of each text
_STRAIGHT = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "\ufeff": ""})


def training_text(name: str, vocabulary: Vocabulary | None = None) -> Corpus:
    """Return novels, wikipedia or both; that of Wikipedia needs no vocabulary, and all others have its."""
    if name == "wikipedia":
        return scale.corpora()[0]
    files = [_novels_file("novels")]
    if name == "both":
        files.append(datasets.locate("wikipedia-good-articles")["train"])
    return Corpus.from_text(
        files,
        tokenizer="words",
        vocabulary=vocabulary,
        cache=kept.place() / f"corpus-lm-reading-{name}",
    )


def held_out(vocabulary: Vocabulary) -> Corpus:
    """As many paragraphs of novels as of Wikipedia, that no model was fitted to."""
    files = _novels_file("held-out-novels"), datasets.locate("wikipedia-good-articles")["dev"]
    lines: list[str] = []
    for file in files:
        with file.open(encoding="utf-8") as stream:
            lines += islice(filter(str.strip, stream), HELD_OUT_PARAGRAPHS)
    return Corpus.from_text(lines, tokenizer="words", vocabulary=vocabulary)


def _novels_file(name: str) -> Path:
    """All novels but those held out, or these, in a file that is written when it is first needed."""
    path = kept.place() / f"reading-{name}.txt"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as new, new.open("w", encoding="utf-8") as stream:
            for file, text in _novels(datasets.locate("english-novels")["novels"]):
                if file.startswith(HELD_OUT_AUTHORS) == name.startswith("held-out"):
                    # an empty line or an indented one begins a paragraph
                    for paragraph in text.translate(_STRAIGHT).replace("\n ", "\n\n").split("\n\n"):
                        stream.write(" ".join(paragraph.split()) + "\n")
    return path


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
