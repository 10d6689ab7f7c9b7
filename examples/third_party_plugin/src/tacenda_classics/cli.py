"""``tacenda classics``: find the lines of a text that are most similar to a query.

It works with every installed embedder. Slow imports are inside the function, so that ``--help`` is fast.
"""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Use the models of tacenda-classics.")


@app.command()
def search(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a saved embedder.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Text, one passage per line.")],
    query: Annotated[str, typer.Argument(help="Words to look for.")],
    n: Annotated[int, typer.Option("-n", min=1, help="Lines shown.")] = 5,
) -> None:
    """Show the lines of a text that are nearest to a query, best first.

    The vector of a line is the mean of its token vectors minus the mean of the text. Similarity is the cosine.
    """
    import numpy as np

    import tacenda
    from tacenda.errors import ConfigurationError, DataError

    embedder = tacenda.load(folder)
    if embedder.kind != "embedders":
        raise ConfigurationError(
            f"{folder} is a saved model of {embedder.kind}; search needs an embedder"
        )
    try:
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.split()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {file}: {error}") from error
    if not lines or not query.split():
        raise DataError("the text or the query is empty")
    vectors = embedder.transform([line.split() for line in [query, *lines]])
    means = np.stack([tokens.mean(axis=0, dtype=np.float64) for tokens in vectors])
    means -= means[1:].mean(axis=0)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    cosines = means[1:] @ means[0]
    for i in np.argsort(-cosines, kind="stable")[:n].tolist():
        typer.echo(f"{cosines[i]:.3f}\t{i + 1}\t{lines[i]}")
