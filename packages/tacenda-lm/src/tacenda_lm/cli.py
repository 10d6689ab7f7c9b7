"""``tacenda lm``: fit language models, score text with them, generate from them, mix them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tacenda.cli.options import check_output, settings_of

app = typer.Typer(no_args_is_help=True, help="Fit, apply and mix language models.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a saved language model.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="Text, a sentence a line.")]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where to save it.")]
Tokenizer = Annotated[
    str | None,
    typer.Option(help='"whitespace", "words" or "spacy:LANG"; that of the fit if not given.'),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]
Encoding = Annotated[str, typer.Option(help="Encoding of the text.")]


@app.command()
def fit(
    text: Annotated[
        list[Path],
        typer.Option("--text", metavar="FILE", help="Text, a sentence a line; may be repeated."),
    ],
    output: Output,
    valid: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Held-out text, a sentence a line.")
    ] = None,
    model: Annotated[
        str, typer.Option("--model", help="As `tacenda plugins language_models` shows.")
    ] = "kneser_ney",
    distribution: Annotated[
        str | None, typer.Option(help="Whose, if two distributions have one of that name.")
    ] = None,
    order: Annotated[
        int | None, typer.Option(min=1, help="Words an n-gram spans (kneser_ney).")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting of the model, as JSON."),
    ] = None,
    tokenizer: Annotated[
        str, typer.Option(help='"whitespace", "words" or "spacy:LANG".')
    ] = "whitespace",
    max_vocabulary: Annotated[
        int, typer.Option(min=0, help="Types kept, the most frequent ones; 0 keeps all.")
    ] = 0,
    min_count: Annotated[int, typer.Option(min=1, help="Rarer types become <unk>.")] = 1,
    lowercase: Annotated[bool, typer.Option(help="Ignore case.")] = False,
    digits: Annotated[bool, typer.Option(help="Map all numbers to one shape.")] = False,
    encoding: Encoding = "utf-8",
) -> None:
    """Fit a language model on text and save it."""
    from tacenda import Corpus
    from tacenda.corpus.text import sentences_of
    from tacenda_lm.making import make_model

    chosen = {} if order is None else {"order": order}
    unfitted = make_model(model, {**chosen, **settings_of(settings or [])}, distribution)
    check_output(output)
    corpus = Corpus.from_text(
        text,
        tokenizer=tokenizer,
        max_vocabulary=max_vocabulary or None,
        min_count=min_count,
        lowercase=lowercase,
        digits=digits,
        encoding=encoding,
    )
    typer.echo(
        f"{corpus.n_tokens:,} tokens in {corpus.n_sentences:,} sentences, "
        f"{len(corpus.vocabulary):,} types",
        err=True,
    )
    held_out = None  # as words: a corpus does not remember which <unk> was written so
    if valid is not None:
        held_out = list(sentences_of(valid, tokenizer, encoding))
    fitted = unfitted.fit(corpus, held_out)
    fitted.save(output)
    for figure in fitted.figures:
        typer.echo(f"{figure['measure']} of the {figure['text']}: {figure['value']:.2f}", err=True)
    typer.echo(f"{model}, saved in {output}", err=True)


@app.command()
def score(
    folder: Folder,
    file: File,
    words: Annotated[bool, typer.Option(help="A line a word, with its surprisal in bits.")] = False,
    tokenizer: Tokenizer = None,
    encoding: Encoding = "utf-8",
) -> None:
    """The log-probability of every line of a text.

    A line is the base-10 logarithm, a tab and the sentence, </s> counted; an empty line is a sentence
    without words. With --words: a word, a tab and its surprisal in bits, </s> last, an empty line after
    every sentence.
    """
    from tacenda_lm.making import load_model
    from tacenda_lm.reporting import scored_lines, scored_words

    model = load_model(folder)
    report = scored_words if words else scored_lines
    for line in report(model, file, _tokenizer(model, tokenizer), encoding):
        typer.echo(line)


@app.command()
def perplexity(
    folder: Folder,
    file: File,
    context: Annotated[
        str,
        typer.Option(help='"sentence": each by itself; "stream": each after all before it.'),
    ] = "sentence",
    tokenizer: Tokenizer = None,
    as_json: AsJson = False,
    encoding: Encoding = "utf-8",
) -> None:
    """Perplexity of a text, with and without unknown words and ends of sentences."""
    from tacenda.corpus.text import sentences_of
    from tacenda_lm.making import load_model
    from tacenda_lm.perplexity import checked_context
    from tacenda_lm.reporting import perplexity_lines

    how = checked_context(context)
    model = load_model(folder)
    sentences = sentences_of(file, _tokenizer(model, tokenizer), encoding)
    found = model.perplexity(sentences, context=how)
    if as_json:
        typer.echo(json.dumps({"file": str(file), **found.to_dict()}))
        return
    for line in perplexity_lines(found):
        typer.echo(line)


@app.command()
def generate(
    folder: Folder,
    context: Annotated[str, typer.Option(help="What every sentence begins with.")] = "",
    n: Annotated[int, typer.Option("-n", "--n", min=1, help="Sentences.")] = 5,
    max_words: Annotated[int, typer.Option(min=1, help="Longest continuation.")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Of the random choices.")] = 0,
    temperature: Annotated[float, typer.Option(help="Below 1: more of what is probable.")] = 1.0,
    top_k: Annotated[
        int | None, typer.Option(min=1, help="Draw from so many words at each step.")
    ] = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Search for the most probable instead, so wide.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sentences of a model: random ones, or with --beam the most probable."""
    import numpy as np

    from tacenda_lm.making import load_model

    model = load_model(folder)
    if beam is not None:
        found = model.beam(context, width=max(beam, n), n=n, max_words=max_words)
    else:
        rng = np.random.default_rng(seed)
        found = [
            model.sample(context, max_words=max_words, seed=rng, temperature=temperature, k=top_k)
            for _ in range(n)
        ]
    if as_json:
        typer.echo(json.dumps([each._asdict() for each in found]))
        return
    for each in found:
        typer.echo(" ".join([*context.split(), *each.words, *([] if each.ended else ["..."])]))


@app.command()
def mix(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of saved language models.")
    ],
    output: Output,
    valid: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Held-out text that weights are fitted on.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Fixed weights, with commas; equal ones if not given.")
    ] = None,
    tokenizer: Tokenizer = None,
    encoding: Encoding = "utf-8",
) -> None:
    """Mix language models, with fixed weights or with those that suit a held-out text."""
    from tacenda.corpus.text import sentences_of
    from tacenda_lm.making import load_model, names_of
    from tacenda_lm.mixture import Mixture

    if valid is not None and weights is not None:
        raise typer.BadParameter("give --valid FILE to fit the weights, or --weights, not both")
    try:
        given = None if weights is None else [float(weight) for weight in weights.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"--weights takes numbers with commas: {error}") from error
    check_output(output)
    models = [load_model(folder) for folder in folders]
    mixture = Mixture(dict(zip(names_of(folders), models, strict=True)), given)
    if valid is not None:
        sentences = list(sentences_of(valid, _tokenizer(models[0], tokenizer), encoding))
        mixture.fit_weights(sentences)
        mixture.record(sentences, "text the weights were fitted on", context=mixture.own_context)
    mixture.save(output)
    for name, weight in mixture.weights.items():
        typer.echo(f"{weight:.4f}  {name}")


def _tokenizer(model: object, given: str | None) -> str:
    known = str(getattr(model, "fitted_on", {}).get("tokenizer") or "whitespace")
    if given is None and known == "callable":
        raise typer.BadParameter(
            "the model was fitted on words of a tokenizer of its own, which is not kept with it: say --tokenizer"
        )
    return given or known
