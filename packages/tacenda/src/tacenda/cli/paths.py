"""Files that commands of all plugins read and write: texts, saved models, and checks of outputs before the work."""

from __future__ import annotations

import difflib
import glob
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import typer

from tacenda.errors import ArtifactError, ConfigurationError, CorpusError
from tacenda.reading import path_of

_REMOTE_BLOCK_BYTES = 1 << 26  # of a file at an address, read at a time


def load_model(folder: Path, required_method: str, description: str) -> Any:
    """Load a saved model. Raises ConfigurationError if it has no such method, and so is not what is described."""
    import tacenda

    model = tacenda.load(folder)
    if not hasattr(model, required_method):
        name = getattr(model, "name", type(model).__name__)
        raise ConfigurationError(f"{folder} holds a model {name!r}, not {description}")
    return model


@contextmanager
def open_corpus(
    texts: Sequence[str], scheduler: str | None, *, encoding: str, errors: str, **reading: Any
) -> Iterator[Any]:
    """Yield the corpus of texts, read here or by the workers of a scheduler; print its size to standard error.

    ``reading`` are more arguments of `tacenda.Corpus.from_text`.
    """
    reading |= {"encoding": encoding, "errors": errors}
    with ExitStack() as stack:
        corpus: Any
        if scheduler is None:
            from tacenda.corpus import Corpus

            text = input_texts(texts, encoding, errors, reading.get("text_field"))
            if not isinstance(text, list):  # its fields are read by now
                reading = reading | {"text_field": None}
            corpus = Corpus.from_text(text, **reading)
        else:
            from tacenda.dask import ClusterCorpus, connected

            client = stack.enter_context(connected(scheduler))
            corpus = ClusterCorpus.from_text(texts, client=client, **reading)
        typer.echo(
            f"{corpus.n_tokens:,} tokens in {corpus.n_sentences:,} sentences, {len(corpus.vocabulary):,} types",
            err=True,
        )
        yield corpus


def save_smaller(model: Any, source: Path, output: Path, precision: str | None) -> Any:
    """Save a model that was loaded from ``source`` with another precision; print both sizes and return it loaded.

    ``precision`` is None for a model that is smaller already.
    """
    import tacenda
    from tacenda import store
    from tacenda.artifact import by_name

    # measured first, because the output may be the same folder
    before = store.size_of(by_name.locate(source))
    model.save(output, precision=precision)
    after = store.size_of(output)
    typer.echo(f"{before / 1e6:.1f} MB, now {after / 1e6:.1f} MB in {output}")
    return tacenda.load(output)


def input_text(file: Path, encoding: str, errors: str) -> Path | Iterator[str]:
    """Return the file of a text, or the lines of standard input for ``-``. Raises as `check_text`."""
    if str(file) == "-":
        return _standard_input(encoding, errors)
    check_text(file)
    return file


def check_text(file: Path) -> None:
    """Raise CorpusError if there is no such file, it is a folder, or its folder does not let this user in."""
    path_of(file, CorpusError)
    if file.is_dir():
        raise CorpusError(f"{file} is a directory, not a text: name a file in it")
    if not file.exists():
        folder = file.absolute().parent
        if not folder.is_dir():
            raise CorpusError(
                f"there is no file {str(file)!r}, because there is no folder {str(folder)!r}"
            )
        close: list[str] = []
        with suppress(OSError):  # the folder cannot be listed
            names = [each.name for each in folder.iterdir()]
            close = difflib.get_close_matches(file.name, names, n=1)
        hint = f"did you mean {str(file.with_name(close[0]))!r}?" if close else "check its name"
        raise CorpusError(f"there is no file {str(file)!r} in {str(folder)!r}; {hint}")


def input_texts(
    files: Sequence[str], encoding: str, errors: str, text_field: str | None = None
) -> list[Path] | Iterator[str]:
    """Return the files of a text, globs expanded; or the lines of standard input for ``-`` alone.

    If one of them is an address elsewhere, such as ``s3://bucket/*.txt``, the lines of all are returned. Raises as
    `check_text`, and ConfigurationError where the package for an address is not installed.
    """
    if "-" in files:
        if len(files) > 1:
            raise typer.BadParameter(
                "- is standard input, which cannot be combined with other texts: concatenate them"
            )
        return _standard_input(encoding, errors, text_field)
    if any("://" in file for file in files):
        from tacenda.dask.partitions import partitions

        parts = partitions(files, _REMOTE_BLOCK_BYTES, encoding)
        read = (part.blocks(encoding, errors, "keep", text_field) for part in parts)
        return chain.from_iterable(chain.from_iterable(read))
    named: list[Path] = []
    for file in files:
        is_glob = glob.has_magic(file) and not path_of(file, CorpusError).exists()
        # a Path globs only below itself
        matches = glob.glob(file, recursive=True) if is_glob else []  # noqa: PTH207
        found = [each for each in matches if not path_of(each, CorpusError).is_dir()]
        named += map(Path, sorted(found) or [file])
    for path in named:
        check_text(path)
    return named


def _standard_input(encoding: str, errors: str, text_field: str | None = None) -> Iterator[str]:
    from tacenda.corpus.lines import BLOCK_BYTES, LONGEST_LINE, decode_blocks, texts_of

    if sys.stdin is None:
        raise CorpusError("standard input is closed: name a file instead of -")
    stream: Any = sys.stdin.buffer
    # read1 returns what is there, and does not wait for a whole block
    pieces = chain(iter(lambda: stream.read1(BLOCK_BYTES), b""), [b""])
    name = "standard input"
    blocks = decode_blocks(pieces, name, encoding, errors, longest=LONGEST_LINE)
    return chain.from_iterable(texts_of(blocks, name, "keep", text_field))


def check_file(file: Path, force: bool) -> None:
    """Raise ArtifactError if a command could not write this file at its end.

    That is so if there is an existing file and no ``force``, a folder, a device, a pipe or the file to which the output
    of the command is redirected, or no folder for the file that can be written to.
    """
    path_of(file, ArtifactError)
    if file.is_dir():
        raise ArtifactError(f"{file} is a folder: name a file, such as {file / 'output'}")
    is_printed = False  # whether standard output is redirected to it
    with suppress(OSError):
        is_printed = os.path.samestat(file.stat(), os.fstat(1))
    if file.exists() and (is_printed or not file.is_file()):
        why = "receives the output of this command" if is_printed else "is not a regular file"
        raise ArtifactError(
            f"{file} {why} and cannot be replaced: choose another name, or leave out --output and "
            "redirect what the command prints"
        )
    folder = Path(os.path.realpath(file)).parent
    if not folder.is_dir():
        raise ArtifactError(
            f"cannot write {file}: there is no folder {folder}; make it, or choose another name"
        )
    if not os.access(folder, os.W_OK):
        raise ArtifactError(f"{folder} cannot be written to: choose another place for {file.name}")
    if os.path.lexists(file) and not force:
        raise ArtifactError(
            f"there is a file {file}: choose another name, or replace it with --force"
        )


def check_output(folder: Path, force: bool = False) -> None:
    """Raise ArtifactError if a command could not save a model in ``folder`` at its end.

    An existing model is replaced only with ``force``; leftovers of a killed save do not matter.
    """
    from tacenda.artifact.by_name import MANIFEST
    from tacenda.artifact.folder import check_replaceable

    path_of(folder, ArtifactError)
    nearest = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not nearest.is_dir():
        raise ArtifactError(f"{nearest} is not a folder, and models are saved in folders")
    if nearest == folder:
        try:
            check_replaceable(folder)
        except ArtifactError as error:
            raise ArtifactError(f"cannot save a model in {folder}: {error}") from error
        except OSError as error:
            why = error.strerror or error
            raise ArtifactError(f"{folder} cannot be read ({why}): choose a new folder") from error
        if (folder / MANIFEST).exists() and not force:
            raise ArtifactError(
                f"{folder} holds a model: choose a new folder, or replace it with --force"
            )
    if not os.access(nearest, os.W_OK):
        raise ArtifactError(f"{nearest} cannot be written to: choose another --output")
