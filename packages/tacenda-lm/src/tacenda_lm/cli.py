"""``tacenda lm``: fit, apply, mix and exchange language models.

Models and numpy are imported by the commands that need them, so that ``--help`` is quick.
"""

from __future__ import annotations

import io
import json
import math
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from tacenda.cli import as_options, paths
from tacenda.cli import options as common
from tacenda.errors import ArtifactError, ConfigurationError, check_choice

if TYPE_CHECKING:
    from tacenda import Vocabulary
    from tacenda_lm.language_model import LanguageModel

app = typer.Typer(no_args_is_help=True, help="Fit, apply and mix language models.")

_TOKENIZERS = '"whitespace", "ascii_whitespace", "words" or "spacy:LANG"'
File = Annotated[
    Path, Argument(metavar="FILE", help="Text, one sentence per line; - is standard input.")
]
Tokenizer = Annotated[
    str | None, Option(help=f"{_TOKENIZERS}. Default: the tokenizer of the training text.")
]
Marks = Annotated[
    str, Option(help='<s> and </s> written in a text: "refuse", "skip" or "keep" them.')
]
BlankLines = Annotated[
    str,
    Option(
        help='Lines without words: "skip" them, or "count" the </s> of each, like KenLM\'s query.'
    ),
]

_SENTENCES_PER_BATCH = 2000
_TABS = {"\\t": "\t", "tab": "\t"}  # ways to write a tab on a command line
_MAX_BEAM = 1000  # width of a beam search, which holds as many states


@app.command()
def surprisal(
    command: typer.Context,
    folder: common.Folder,
    files: Annotated[
        list[Path],
        Argument(
            metavar="FILE...", help="Texts, or item files with --region; - is standard input."
        ),
    ],
    output: Path | None = Option(
        None, "--output", "-o", metavar="FILE", help="Write a .csv or .tsv file."
    ),
    region: str | None = Option(
        None, metavar="COLUMN", help="Read item files: each row has a region in this column."
    ),
    item: list[str] | None = Option(
        None, metavar="COLUMN", help="Column that distinguishes items; may be repeated."
    ),
    sentence: str | None = Option(
        None, metavar="COLUMN", help="Column whose value changes at the beginning of each sentence."
    ),
    words: bool = Option(
        False, "--words", help="The column of --region has whole sentences; each word gets a row."
    ),
    delimiter: str | None = Option(
        None, help="Separator of the columns of item files. Default: found in their first row."
    ),
    quotes: bool = Option(True, help="Whether values of item files may be in double quotes."),
    previous: int = Option(
        1, min=0, max=1000, help="Number of preceding words whose values each row also has."
    ),
    unknown: str = Option("spelling", help='Unknown words: "spelling", "even" or "class".'),
    unseen_types: int | None = Option(None, min=1, help='For "even": the number of unknown words.'),
    split: str = Option(
        "lines",
        help='"lines": one sentence per line; "sentences": also split lines at punctuation.',
    ),
    context: str = Option(
        "text",
        help='Context of a word: "text", all words before it; "sentence", the words of its sentence.',
    ),
    tokenizer: Tokenizer = None,
    tabs: bool = Option(False, "--tabs", help="Separate columns with tabs instead of commas."),
    encoding: common.Encoding = "utf-8",
    errors: common.Errors = "strict",
    force: common.Force = False,
) -> None:
    """Print a table with the surprisal of each word.

    Words are separated by whitespace. With --region, each row of an item file counts as one. The columns are text,
    sentence, word_index, start, end (characters), word, surprisal (bits, without attached punctuation),
    surprisal_with_punctuation, known, log_frequency (base 2, of the training text), length, and with _prev1 ... the
    same for the previous words. Notes on standard error point out values that are easy to misread.
    """
    from tacenda_lm.surprisal.items import read_items
    from tacenda_lm.surprisal.scoring import surprisal_table
    from tacenda_lm.surprisal.table import check_ending

    if region is None:
        of_items = "--item", "--sentence", "--words", "--delimiter", "--quotes"
        common.refuse_idle(command, "without --region COLUMN, the column of the regions", *of_items)
    if output is not None:
        check_ending(output)
        paths.check_file(output, force)
    model = _load(folder)
    _refuse_dashes(files)
    reading: dict[str, Any] = {"encoding": encoding, "errors": errors}
    # a missing file is an error before any is read
    texts: list[Any] = [paths.input_text(file, **reading) for file in files]
    if region is not None:
        columns: dict[str, Any] = {"region": region, "text": item or [], "sentence": sentence}
        form = {"delimiter": _TABS.get(delimiter or "", delimiter), "quotes": quotes, **reading}
        texts = [
            each for text in texts for each in read_items(text, words=words, **columns, **form)
        ]
    else:  # with a line end after it, no text is taken for the name of a file
        texts = [text if isinstance(text, Path) else "\n".join([*text, ""]) for text in texts]
    scoring: dict[str, Any] = {"unknown": unknown, "unseen_types": unseen_types}
    scoring |= {"context": context, "split": split, "tokenizer": tokenizer, **reading}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the notes of the table have the same text
        table = surprisal_table(model, texts, previous=previous, **scoring)
    for note in table.notes:
        typer.echo(f"note: {as_options(note)}", err=True)
    if output is None and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # like a file
    table.write(sys.stdout if output is None else output, delimiter="\t" if tabs else None)


@app.command()
def compact(
    command: typer.Context,
    folder: common.Folder,
    output: common.Output,
    bits: int = Option(8, help="Bits per log-probability (kneser_ney)."),
    prune: float = Option(
        0.0,
        help="Leave out n-grams that lower the perplexity by less than this share (kneser_ney).",
    ),
    precision: common.Precision = None,
    text: Path | None = Option(
        None, metavar="FILE", help="Held-out text to measure the perplexity on, before and after."
    ),
    tokenizer: Tokenizer = None,
    encoding: common.Encoding = "utf-8",
    errors: common.Errors = "strict",
    force: common.Force = False,
) -> None:
    """Save a smaller copy of a model, and print what is lost.

    With --text, the loss is the perplexity of that text before and after.
    """
    from tacenda_lm import KneserNey

    if text is None:
        common.refuse_idle(command, "without --text FILE", "--tokenizer", "--encoding", "--errors")
    model = _load(folder)
    of_others = ["--precision"] if isinstance(model, KneserNey) else ["--bits", "--prune"]
    common.refuse_idle(command, f"on a model {model.name!r}", *of_others)
    paths.check_output(output, force)
    if text is not None:  # before anything is saved: the file may be missing, or hold no text
        read = _read_sentences(model, text, tokenizer, "refuse", encoding, errors)
        sentences = list(_announce_fitted_lines(model, read))
        old = model.perplexity(sentences, context=model.own_context, marks="keep")
    if isinstance(model, KneserNey):
        smaller = model.smaller(prune=prune, bits=bits)
        small = paths.save_smaller(smaller, folder, output, None)
    else:
        small = paths.save_smaller(model, folder, output, precision or "int8")
    if text is not None:
        new = small.perplexity(sentences, context=small.own_context, marks="keep")
        typer.echo(
            f"perplexity of {text}, {new.n_tokens:,} tokens: {old.value:.2f}, now {new.value:.2f}"
        )


@app.command()
def fit(
    text: common.Texts,
    output: common.Output,
    valid: Path | None = Option(None, metavar="FILE", help="Held-out text, one sentence per line."),
    vocabulary: Path | None = Option(
        None,
        metavar="FILE|DIR",
        help="Words to use: a file of words or of Brown clusters, or a saved model. Models with the same words can be "
        "mixed.",
    ),
    model: str = Option(
        "kneser_ney",
        "--model",
        help="Name of the model; `tacenda plugins language_models` lists them.",
    ),
    distribution: common.Distribution = None,
    order: int | None = Option(None, min=1, help="Number of words in an n-gram (kneser_ney)."),
    lds: str | None = Option(
        None, metavar="DIR", help="Saved LDS to start training from (recurrent)."
    ),
    settings: common.Set = None,
    checkpoints: common.Checkpoints = None,
    tokenizer: str = Option("whitespace", help=f"{_TOKENIZERS}."),
    max_vocabulary: common.MaxVocabulary = 0,
    min_count: common.MinCount = 1,
    lowercase: common.Lowercase = False,
    digits: common.Digits = False,
    count_words: bool = Option(
        False,
        "--count-words",
        help="Also count words of several tokens, such as don't, so that surprisal tables have their frequencies.",
    ),
    scheduler: common.Scheduler = None,
    text_field: common.TextField = None,
    marks: Marks = "refuse",
    encoding: common.Encoding = "utf-8",
    errors: common.Errors = "strict",
    force: common.Force = False,
) -> None:
    """Fit a language model to text and save it.

    With --scheduler, the n-grams of a kneser_ney model are counted on a Dask cluster.
    """
    from tacenda.corpus.marks import check_marks
    from tacenda.corpus.text import sentences_of

    if count_words and scheduler is not None:
        raise typer.BadParameter("--count-words does not work on a cluster: leave out --scheduler")
    _refuse_dashes([*text, valid, vocabulary])
    options = common.options_of(settings, order=order, lds=lds)
    unfitted = _make_model(model, options, distribution, checkpoints, scheduler)
    splitting: dict[str, Any] = {"tokenizer": tokenizer, "encoding": encoding, "errors": errors}
    splitting |= {"marks": check_marks(marks), "text_field": text_field}
    paths.check_output(output, force)
    held_out = None  # as words, because a corpus does not remember which <unk> were written
    if valid is not None:
        held_out = list(sentences_of(paths.input_text(valid, encoding, errors), **splitting))
    selection: dict[str, Any] = {"max_vocabulary": max_vocabulary or None, "min_count": min_count}
    selection |= {"lowercase": lowercase, "digits": digits}
    if vocabulary is not None:
        selection["vocabulary"] = _read_words(vocabulary, digits, lowercase)
    if count_words:
        selection["count_words"] = True
    with paths.open_corpus(text, scheduler, **splitting, **selection) as corpus:
        if scheduler is None:
            fitted = unfitted.fit(corpus, held_out, checkpoints=checkpoints, marks="keep")
        else:
            from tacenda_lm import dask

            fitted = dask.fit(unfitted, corpus, held_out, marks="keep")
    list(_announce_fitted_lines(fitted, iter(held_out or [])))
    fitted.save(output)
    for figure in fitted.figures:
        typer.echo(f"{figure['measure']} of the {figure['text']}: {figure['value']:.2f}", err=True)
    typer.echo(f"{model}, saved in {output}", err=True)


@app.command()
def score(
    folder: common.Folder,
    file: File,
    words: bool = Option(False, help="Print one line per word, with its surprisal in bits."),
    tokenizer: Tokenizer = None,
    marks: Marks = "refuse",
    blank_lines: BlankLines = "skip",
    encoding: common.Encoding = "utf-8",
    errors: common.Errors = "strict",
) -> None:
    """Print the log-probability of every line of a text.

    Each line has the base-10 logarithm, a tab and the sentence; </s> is counted, and an empty line scores 0. With
    --words each line has a word, a tab and its surprisal in bits; </s> comes last, and an empty line follows every
    sentence. Here each unknown word gets the probability of all unknown words together, which is too high: `tacenda
    lm surprisal` scores them separately.
    """
    from tacenda_lm.sequences import BlankLines as Allowed

    blank = check_choice("blank_lines", blank_lines, Allowed)
    model = _load(folder)
    sentences = _read_sentences(model, file, tokenizer, marks, encoding, errors)
    while batch := list(islice(sentences, _SENTENCES_PER_BATCH)):
        if not words:
            scores = model.score_batch(batch, blank_lines=blank).tolist()
            for log10, sentence in zip(scores, batch, strict=True):
                typer.echo(f"{log10:.6g}\t{' '.join(sentence)}")
            continue
        for sentence, bits in zip(batch, model.surprisals(batch, eos=True), strict=True):
            if sentence or blank == "count":
                for word, value in zip([*sentence, "</s>"], bits.tolist(), strict=True):
                    typer.echo(f"{word}\t{value:.4f}")
            typer.echo("")


@app.command()
def perplexity(
    folder: common.Folder,
    file: File,
    context: str = Option(
        "sentence",
        help='"sentence": score each sentence independently; "stream": as one running text.',
    ),
    tokenizer: Tokenizer = None,
    marks: Marks = "refuse",
    blank_lines: BlankLines = "skip",
    as_json: common.AsJson = False,
    encoding: common.Encoding = "utf-8",
    errors: common.Errors = "strict",
) -> None:
    """Print the perplexity of a text.

    It is printed with and without unknown words and ends of sentences.
    """
    model = _load(folder)
    given = _read_sentences(model, file, tokenizer, marks, encoding, errors)
    sentences = _announce_fitted_lines(model, given)
    protocol: dict[str, Any] = {"context": context, "blank_lines": blank_lines}
    found = model.perplexity(sentences, marks="keep", **protocol)
    if as_json:
        typer.echo(json.dumps({"file": str(file), **found.to_dict()}))
        return
    typer.echo(
        f"{found.n_sentences:,} sentences, {found.n_words:,} words, {found.n_oov:,} of them outside the vocabulary"
    )
    rows = [
        ("perplexity", found.value, "words and </s>, unknown words as <unk>"),
        ("without unknown words", found.without_oov, "words of the vocabulary and </s>"),
        ("without </s>", found.without_eos, "words, unknown ones as <unk>"),
        ("without both", found.without_oov_and_eos, "words of the vocabulary"),
    ]
    for name, value, counted in rows:
        typer.echo(f"{name:<24}{value:>12.4f}  per token: {counted}")
    typer.echo(f"{'bits per token':<24}{found.bits_per_token:>12.4f}")
    if found.bits_per_character is not None:
        counted = "spaces and line ends counted, unknown words spelled"
        typer.echo(f"{'bits per character':<24}{found.bits_per_character:>12.4f}  {counted}")
    typer.echo(f"{'log10 probability':<24}{found.log_prob / math.log(10):>12.2f}")
    if found.n_oov:
        typer.echo(
            "Each unknown word is scored with the probability of all unknown words together: compare perplexities only "
            "over the same vocabulary."
        )


@app.command()
def generate(
    command: typer.Context,
    folder: common.Folder,
    context: str = Option("", help="Words that every sentence begins with."),
    n: int = Option(
        5,
        "-n",
        "--n",
        min=1,
        max=1_000_000,
        help="Number of sentences; with --beam, at most this many.",
    ),
    max_words: int = Option(50, min=1, max=100_000, help="Maximum number of words to add."),
    seed: int = Option(0, min=0, help="Random seed."),
    temperature: float = Option(1.0, help="Below 1, probable words are sampled more often."),
    k: int | None = Option(None, "--k", min=1, help="Sample only from the K most probable words."),
    beam: int | None = Option(
        None,
        min=1,
        max=_MAX_BEAM,
        metavar="WIDTH",
        help="Search for the most probable sentences with a beam of this width, instead of sampling.",
    ),
    tokenizer: Tokenizer = None,
    as_json: common.AsJson = False,
) -> None:
    """Generate sentences: random ones or, with --beam, the most probable ones."""
    import numpy as np

    from tacenda.tokenizers import choose_tokenizer, get_tokenizer

    if beam is not None:
        common.refuse_idle(command, "with --beam", "--seed", "--temperature", "--k")
    model = _load(folder)
    beginning = list(get_tokenizer(choose_tokenizer(model, tokenizer))(context)) if context else []
    if beam is not None:
        found = iter(model.beam(beginning, width=beam, n=n, max_words=max_words))
    else:
        rng = np.random.default_rng(seed)
        found = (
            model.sample(beginning, max_words=max_words, seed=rng, temperature=temperature, k=k)
            for _ in range(n)
        )
    if as_json:
        typer.echo(json.dumps([continuation._asdict() for continuation in found]))
        return
    for continuation in found:  # each as soon as it is drawn
        mark = [] if continuation.ended else ["..."]
        typer.echo(" ".join([*beginning, *continuation.words, *mark]))


@app.command()
def mix(
    command: typer.Context,
    folders: Annotated[
        list[Path], Argument(metavar="DIR...", help="Folders of saved language models.")
    ],
    output: common.Output,
    valid: Path | None = Option(None, metavar="FILE", help="Held-out text to fit the weights to."),
    weights: str | None = Option(
        None, help="Fixed weights, separated by commas. Default: equal weights."
    ),
    adaptive: bool = Option(
        False, "--adaptive", help="Let the weights adapt to the text; needs --valid."
    ),
    tokenizer: Tokenizer = None,
    marks: Marks = "refuse",
    encoding: common.Encoding = "utf-8",
    errors: common.Errors = "strict",
    force: common.Force = False,
) -> None:
    """Mix language models, with fixed or fitted weights."""
    from tacenda_lm.mixture.adaptive import AdaptiveMixture
    from tacenda_lm.mixture.fixed import Mixture

    if valid is None:
        if adaptive:
            raise typer.BadParameter("--adaptive needs --valid FILE to fit the weights to")
        of_text = "--tokenizer", "--marks", "--encoding", "--errors"
        common.refuse_idle(command, "without --valid FILE", *of_text)
    elif weights is not None:
        raise typer.BadParameter("give --valid FILE to fit the weights, or --weights, not both")
    try:
        fixed = None if weights is None else [float(weight) for weight in weights.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"--weights takes numbers with commas: {error}") from error
    paths.check_output(output, force)
    models = [_load(folder) for folder in folders]
    kind = AdaptiveMixture if adaptive else Mixture
    mixture = kind(dict(zip(_name_components(folders), models, strict=True)), fixed)
    if valid is not None:
        read = _read_sentences(mixture, valid, tokenizer, marks, encoding, errors)
        text = list(_announce_fitted_lines(mixture, read))
        mixture.fit_weights(text, marks="keep")
        name = "text the weights were fitted on"
        mixture.record(text, name, context=mixture.own_context, marks="keep")
    mixture.save(output)
    for name, weight in mixture.weights.items():
        typer.echo(f"{weight:.4f}  {name}")
    if isinstance(mixture, AdaptiveMixture):
        typer.echo(f"adaptation {mixture.adaptation:.3f}, memory {mixture.memory:g}")


@app.command()
def cache(
    folder: common.Folder,
    output: common.Output,
    settings: common.Set = None,
    force: common.Force = False,
) -> None:
    """Make a neural cache from a saved model, such as hlbl.

    Mix the cache with that model and others. `tacenda lm fit --model unigram_cache` makes a cache without vectors.
    """
    from tacenda_lm.cache import NeuralCache

    options = common.options_of(settings)
    paths.check_output(output, force)
    NeuralCache.over(_load(folder), **options).save(output)
    typer.echo(f"neural_cache, saved in {output}", err=True)


@app.command()
def from_arpa(
    file: Annotated[Path, Argument(metavar="FILE", help="An ARPA file, plain or compressed.")],
    output: common.Output,
    force: common.Force = False,
) -> None:
    """Import an n-gram model from an ARPA file of KenLM, SRILM or another tool."""
    from tacenda_lm import KneserNey

    paths.check_output(output, force)
    model = KneserNey.from_arpa(file)
    model.save(output)
    sizes = ", ".join(f"{size:,}" for size in model.table.sizes)
    typer.echo(f"n-grams of 1 to {model.order} words: {sizes}, saved in {output}", err=True)


@app.command()
def to_arpa(
    folder: common.Folder,
    file: Annotated[
        Path,
        Argument(
            metavar="FILE",
            help="File to write, gzipped if its name ends in .gz; - is standard output.",
        ),
    ],
    force: common.Force = False,
) -> None:
    """Export an n-gram model as an ARPA file, which KenLM, SRILM and most decoders read."""
    from tacenda_lm import KneserNey

    to_standard_output = str(file) == "-"
    if not to_standard_output:
        paths.check_file(file, force)
    model = _load(folder)
    if not isinstance(model, KneserNey):
        raise ConfigurationError(
            f"{folder} holds a model {model.name!r}: ARPA files are of kneser_ney"
        )
    model.to_arpa(sys.stdout.buffer if to_standard_output else file)
    place = "on standard output" if to_standard_output else f"in {file}"
    typer.echo(f"n-grams of 1 to {model.order} words {place}", err=True)


@app.command()
def clusters(
    text: common.Texts,
    output: Annotated[
        Path, Option("--output", "-o", metavar="FILE", help="File to write the clusters to.")
    ],
    n_classes: int = Option(256, min=1, help="Number of clusters."),
    min_count: int = Option(1, min=1, help="Leave out words that occur less often."),
    tokenizer: str = Option("whitespace", help=f"{_TOKENIZERS}."),
    text_field: common.TextField = None,
    marks: Marks = "refuse",
    encoding: common.Encoding = "utf-8",
    errors: common.Errors = "strict",
    force: common.Force = False,
) -> None:
    """Find Brown clusters of the words of a text.

    Each line of the file has a bit string, a word and its count, like the files of wcluster.
    """
    from tacenda.corpus.marks import check_marks
    from tacenda_lm.hidden_markov.brown import brown_clusters

    paths.check_file(output, force)
    reading = {"tokenizer": tokenizer, "marks": check_marks(marks), "text_field": text_field}
    with paths.open_corpus(text, None, encoding=encoding, errors=errors, **reading) as corpus:
        found = brown_clusters(corpus, n_classes, min_count=min_count)
    found.save(output)
    typer.echo(f"{len(found):,} words in {found.n_classes:,} clusters in {output}", err=True)


# -- reading the arguments -----------------------------------------------------------------------------


def _refuse_dashes(files: Iterable[object]) -> None:
    """Raise BadParameter if several texts are standard input."""
    if list(map(str, files)).count("-") > 1:
        raise typer.BadParameter("- is standard input, which can be read once: give it once")


def _load(folder: Path) -> LanguageModel:
    """Load a saved language model. Raises ConfigurationError for another model."""
    model: LanguageModel = paths.load_model(folder, "score_corpus", "a language model")
    return model


def _make_model(
    name: str,
    options: dict[str, Any],
    distribution: str | None,
    checkpoints: Path | None,
    scheduler: str | None,
) -> Any:
    """Return an unfitted model. Raises ConfigurationError if it cannot be fitted as the command line says."""
    from tacenda import plugins
    from tacenda_lm.language_model import check_keeps_checkpoints
    from tacenda_lm.mixture import Mixture

    if issubclass(plugins.get("language_models", name, distribution=distribution), Mixture):
        raise ConfigurationError(
            "a mixture needs saved models: fit each, and mix them with `tacenda lm mix`"
        )
    unfitted = plugins.make("language_models", name, options, distribution=distribution)
    # refused with a scheduler too: no model that a cluster fits has them
    if checkpoints is not None:
        check_keeps_checkpoints(unfitted)
    if scheduler is not None:
        from tacenda.dask.corpus import check_model
        from tacenda_lm.ngram.kneser_ney import KneserNey

        check_model(unfitted, KneserNey)
    return unfitted


def _name_components(folders: list[Path]) -> list[str]:
    """Return the names of folders if a saved mixture can hold components of these names, and numbers otherwise."""
    from tacenda.artifact.folder import check_name

    names = [folder.resolve().name for folder in folders]
    with suppress(ArtifactError):
        for name in names:
            check_name(name)
        if len(set(names)) == len(names):
            return names
    return [f"model-{i}" for i in range(len(folders))]


def _read_sentences(
    model: LanguageModel, file: Path, tokenizer: str | None, marks: str, encoding: str, errors: str
) -> Iterator[list[str]]:
    """Yield the token lists of a text, by default tokenized like the text that the model was fitted to."""
    from tacenda.corpus.marks import check_marks
    from tacenda.corpus.text import sentences_of
    from tacenda.tokenizers import choose_tokenizer

    text = paths.input_text(file, encoding, errors)
    split = choose_tokenizer(model, tokenizer)
    return sentences_of(text, split, encoding, errors, check_marks(marks))


def _announce_fitted_lines(
    model: LanguageModel, sentences: Iterator[list[str]]
) -> Iterator[list[str]]:
    """Yield the sentences; after the last, print to standard error if the model was fitted to them."""
    from tacenda_lm.line_sketch import LineMatches, find_lines
    from tacenda_lm.sequences import encode_sentences

    total: LineMatches | None = None
    while batch := list(islice(sentences, _SENTENCES_PER_BATCH)):
        found = find_lines(model, *encode_sentences(batch, model.vocabulary))
        total = found if total is None or found is None else total + found
        yield from batch
    if total is not None and total.note is not None:
        typer.echo(f"note: {total.note}", err=True)


def _read_words(source: Path, digits: bool, lowercase: bool) -> Vocabulary:
    """Read a vocabulary from a saved or installed model, a file of clusters, or a file of words.

    Raises ConfigurationError for a model or a file without words, and CorpusError for a file that cannot be read.
    """
    from tacenda import Vocabulary, load
    from tacenda.artifact import by_name
    from tacenda.corpus.marks import START
    from tacenda.corpus.text import sentences_of
    from tacenda.reading import whole_number
    from tacenda.tokenizers import ASCII_WHITESPACE, get_tokenizer
    from tacenda.vocabulary import BOUNDARY, UNKNOWN, Normalization

    if source.is_dir() or any(model.name == str(source) for model in by_name.available()):
        found = getattr(load(source), "vocabulary", None)
        if not isinstance(found, Vocabulary):
            raise ConfigurationError(f"{source} holds a model without a vocabulary of words")
        return found
    normalization = Normalization(digits, lowercase)
    text = paths.input_text(source, "utf-8", "strict")
    # columns are between tabs, because a word may contain a space
    lines = sentences_of(text, lambda line: line.split("\t"))
    rows = [row for row in lines if "".join(row).strip()]
    if rows and all(len(row) == 3 and not row[0].strip("01") for row in rows):
        counts = {word: whole_number(count.strip()) or 1 for _, word, count in rows}
        return Vocabulary.from_counts(counts, 0, min_count=1, normalization=normalization)
    split = get_tokenizer(ASCII_WHITESPACE)
    words = [word for row in rows for word in split("\t".join(row))]
    if not set(words) - {START, BOUNDARY, UNKNOWN}:
        raise ConfigurationError(f"{source} has no words: name a file of words, or a saved model")
    return Vocabulary.from_words(words, normalization)
