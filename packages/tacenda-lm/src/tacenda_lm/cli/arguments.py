"""What the commands of ``tacenda lm`` are given: models, texts, and the words to use."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacenda.cli.options import input_text

if TYPE_CHECKING:
    from tacenda import Vocabulary
    from tacenda_lm.language_model import LanguageModel

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a saved language model.")]
File = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Text, one sentence per line; - is standard input."),
]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to save the model in.")
]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        help='"whitespace", "ascii_whitespace", "words" or "spacy:LANG"; by default that of the fit.'
    ),
]
Marks = Annotated[
    str,
    typer.Option(help="<s> and </s> written in a text: refuse them, skip them, or keep them."),
]
BlankLines = Annotated[
    str,
    typer.Option(help="Lines without words: skip them, or count the </s> of each, as query does."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def sentences_of_file(
    model: LanguageModel,
    file: Path,
    tokenizer: str | None,
    marks: str,
    encoding: str,
    errors: str,
) -> Iterator[list[str]]:
    """Return the token lists of a text, by default tokenized as for the fit."""
    from tacenda.corpus.lines import check_marks
    from tacenda.corpus.text import sentences_of

    text = input_text(file, encoding, errors)
    split = tokenizer_of(model, tokenizer)
    return sentences_of(text, split, encoding, errors, check_marks(marks))


def vocabulary_of(source: Path, digits: bool, lowercase: bool) -> Vocabulary:
    """Return the words of a saved or installed model, of a file of clusters, or of a file of words between whitespace.

    Raises ConfigurationError for a model without a vocabulary, and CorpusError for a file that cannot be read.
    """
    import tacenda
    from tacenda import Vocabulary
    from tacenda.artifact import by_name
    from tacenda.corpus.lines import whole_number
    from tacenda.corpus.text import sentences_of
    from tacenda.errors import ConfigurationError
    from tacenda.tokenizers import ASCII_WHITESPACE
    from tacenda.vocabulary import Normalization

    if source.is_dir() or any(model.name == str(source) for model in by_name.available()):
        found = getattr(tacenda.load(source), "vocabulary", None)
        if not isinstance(found, Vocabulary):
            raise ConfigurationError(f"{source} holds a model without a vocabulary of words")
        return found
    normalization = Normalization(digits, lowercase)
    rows = filter(None, sentences_of(input_text(source, "utf-8", "strict"), ASCII_WHITESPACE))
    listed = list(rows)
    if listed and all(len(row) == 3 and set(row[0]) <= {"0", "1"} for row in listed):
        counts = {word: whole_number(count) or 0 for _, word, count in listed}
        return Vocabulary.from_counts(counts, 0, min_count=1, normalization=normalization)
    return Vocabulary.from_words(chain.from_iterable(listed), normalization)


def load_model(folder: Path) -> LanguageModel:
    """Load a language model. Raises ConfigurationError for a model of another kind."""
    import tacenda
    from tacenda.errors import ConfigurationError
    from tacenda_lm.language_model import LanguageModel

    model = tacenda.load(folder)
    if not isinstance(model, LanguageModel):
        name = getattr(model, "name", type(model).__name__)
        raise ConfigurationError(f"{folder} holds a model {name!r}, not a language model")
    return model


def tokenizer_of(model: LanguageModel, given: str | None) -> str:
    """Return the tokenizer that was given, or else the one that the model was fitted with."""
    from tacenda.errors import ConfigurationError
    from tacenda_lm.language_model import fitted_tokenizer

    if given is not None:
        return given
    try:
        return fitted_tokenizer(model)
    except ConfigurationError as error:
        cause = str(error).removesuffix("give tokenizer")
        raise typer.BadParameter(f"{cause}give --tokenizer") from error
