"""``tacenda embed init-config``: configurations of spaCy pipelines on the vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacenda.cli.options import Force, check_file
from tacenda.errors import ConfigurationError

ModelOutput = Annotated[
    str | None,
    typer.Option(
        "--model-output",
        metavar="NAME",
        help="Which of the model's vectors, where it has several: own_past_future, own_context ... (lds).",
    ),
]


def init_config(
    output: Annotated[Path, typer.Argument(metavar="FILE.cfg|-", help="The file, or - to print.")],
    lds: Annotated[
        str,
        typer.Option(
            metavar="DIR",
            help="Folder or name of an LDS, or of another embedder; read in training.",
        ),
    ],
    pipeline: Annotated[
        str, typer.Option(help="Components, with commas: tagger, parser, ner ...")
    ] = "tagger",
    vectors: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Folder or name of a sumembed or varembed: recommended beside an LDS.",
        ),
    ] = None,
    language: Annotated[str, typer.Option(help="Its language, as spaCy's code.")] = "en",
    cnn_layers: Annotated[int, typer.Option(min=0, help="Layers of convolution on top.")] = 1,
    shared: Annotated[
        bool, typer.Option(help="One tok2vec that all components listen to, or one in each.")
    ] = True,
    target: Annotated[
        str | None, typer.Option(help='Where vectors go: "tensor", or NAME for doc._.NAME.')
    ] = None,
    model_output: ModelOutput = None,
    force: Force = False,
) -> None:
    """Write a configuration for `spacy train`: a pipeline on an LDS, filled and valid."""
    if str(output) != "-":
        check_file(output, force)
    try:
        from tacenda_embeddings.spacy.configuration import missing, pipeline_config
    except ImportError as error:
        raise ConfigurationError(
            f"spaCy cannot be imported ({error}): install 'tacenda-embeddings[spacy]'"
        ) from error
    config = pipeline_config(
        pipeline.split(","),
        lds,
        vectors=vectors,
        language=language,
        cnn_layers=cnn_layers,
        shared=shared,
        target=target,
        output=model_output,
    )
    for option, model in (("--lds", lds), ("--vectors", vectors)):
        if model is not None and (reason := missing(model)) is not None:
            typer.echo(
                f"{option} {model} is not there yet, and training needs it: {reason}", err=True
            )
    if str(output) == "-":
        typer.echo(config.to_str())
        return
    config.to_disk(output)
    typer.echo(f"{', '.join(config['nlp']['pipeline'])}, in {output}; now:", err=True)
    typer.echo(
        f"python -m spacy train {output} --output training --paths.train train.spacy "
        "--paths.dev dev.spacy",
        err=True,
    )
