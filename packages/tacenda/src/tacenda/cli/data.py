"""``tacenda data``: which datasets are known, where they are, and how to bring one here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacenda import datasets
from tacenda.cli.options import columns
from tacenda.datasets.catalogue import DatasetSpec, find
from tacenda.datasets.fetching import MANIFEST

app = typer.Typer(no_args_is_help=True, help="List and fetch datasets.")

_HEADINGS = ("name", "licence", "size", "here", "address")


@app.command("list")
def list_datasets() -> None:
    """List the datasets: licence, size of the download, where it is here, official address."""
    rows = [_HEADINGS]
    for spec in datasets.available():
        found = find(spec)
        here = f"{found.source}: {found.path}" if found else "-"
        rows.append((spec.name, spec.licence, human_size(spec.size), here, _address(spec)))
    for line in columns(rows):
        typer.echo(line)
    typer.echo(
        "\n* not confirmed by a second source\n"
        f"`tacenda data fetch NAME` brings one into {datasets.cache_root()}; "
        "TACENDA_DATA names a folder that is searched first."
    )


@app.command("fetch")
def fetch_dataset(
    name: Annotated[str, typer.Argument(help="A name that `tacenda data list` shows.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The data folder to put it in; the cache if not given."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Fetch it even if it is here.")] = False,
    accept_changed: Annotated[
        bool,
        typer.Option("--accept-changed", help="Accept a file unlike the one fetched before."),
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds without a byte before an attempt has failed.")
    ] = 30.0,
) -> None:
    """Fetch a dataset from its official address (needs the extra tacenda[data])."""
    spec = datasets.get(name)
    typer.echo(f"{spec.title}\nlicence: {spec.licence_text}\nhome page: {spec.homepage}")
    for item in spec.downloads:
        typer.echo(f"from: {item.urls[0]}")
    result = datasets.fetch(
        name, output, force=force, accept_changed=accept_changed, timeout=timeout
    )
    for receipt in result.receipts:
        verdict = "as published" if receipt.verified else "unverified: no hash is published"
        if not receipt.verified and result.recorded.get(receipt.filename) == receipt.sha256:
            verdict = "unverified, but the same as fetched before"
        typer.echo(
            f"{receipt.filename}: {receipt.bytes:,} bytes, sha256 {receipt.sha256}, {verdict}"
        )
    if result.receipts:
        typer.echo(f"{name} is in {result.dataset.path}; recorded in {MANIFEST}")
    else:
        typer.echo(f"{name} was in {result.dataset.path} already; nothing was fetched")


def human_size(size: int | None) -> str:
    """Bytes in a unit that keeps the number short; ``?`` if they are not known."""
    if size is None:
        return "?"
    for power, unit in ((3, "GB"), (2, "MB"), (1, "kB")):
        if size >= 1000**power:
            return f"{size / 1000**power:.1f} {unit}"
    return f"{size} B"


def _address(spec: DatasetSpec) -> str:
    if not spec.downloads:
        return f"not to be downloaded; see {spec.homepage}"
    first = spec.downloads[0]
    more = f" and {len(spec.downloads) - 1} more" if len(spec.downloads) > 1 else ""
    mark = "" if all(item.confirmed for item in spec.downloads) else " *"
    return f"{first.urls[0]}{more}{mark}"
