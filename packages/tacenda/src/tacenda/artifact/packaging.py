"""`package`: a saved model as a wheel, with a model card and a name under which `tacenda.load` finds it.

The wheel holds a folder with the model and its card, and no code. It is built by hatchling (the extra
``tacenda[package]``), so that equal models give equal bytes.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacenda.artifact import folder as folders
from tacenda.artifact.by_name import CARD, NAME, available
from tacenda.artifact.folder import Artifact
from tacenda.errors import ArtifactError, ConfigurationError, warn
from tacenda.plugins import canonical, version_of

_COMPONENTS = {"embedders": "token_embeddings", "language_models": "lm_scorer"}


@dataclass(frozen=True)
class ModelCard:
    """Facts about a packaged model that its artifact does not hold.

    Attributes
    ----------
    name
        The name for `tacenda.load`: letters, digits, ``.``, ``_`` and ``-``.
    version
        Of the model, such as "1.0.0" (PEP 440).
    license
        An SPDX expression, such as "CC-BY-SA-4.0".
    summary
        One line, with which the card begins and which `tacenda models` shows.
    attribution
        The people whom the license of the data wants named; Markdown.
    """

    name: str
    version: str
    license: str
    summary: str = ""
    attribution: str = ""

    @property
    def line(self) -> str:
        """The summary, or where there is none a line that says as much as the name does."""
        return self.summary or f"The model {self.name} for Tacenda."

    @property
    def module(self) -> str:
        """The folder in the wheel, which the entry point names."""
        return "tacenda_model_" + re.sub(r"[^a-z0-9]+", "_", self.name.lower())

    @property
    def distribution(self) -> str:
        """The name of the distribution."""
        return self.module.replace("_", "-")


def package(
    source: str | os.PathLike[str], about: ModelCard, output: str | os.PathLike[str]
) -> Path:
    """Build the wheel of a saved model, for ``pip install``, and return its path.

    Parameters
    ----------
    source
        The folder of a saved model, which is read and checked whole.
    about
        Name, version, license and words for the card.
    output
        The folder for the wheel; it is created.

    Raises
    ------
    ArtifactError
        The model cannot be read, or the wheel not written.
    ConfigurationError
        The name, the version or the license is not valid, or hatchling is not installed.
    """
    try:
        from hatchling.builders.wheel import WheelBuilder
    except ImportError as error:
        raise ConfigurationError(
            f"packaging a model needs hatchling ({error}): pip install 'tacenda[package]'"
        ) from error
    check_card(about)
    artifact = folders.read(source, whole=True)
    owners = [
        model.distribution
        for model in available()
        if canonical(model.name) == canonical(about.name)
        and canonical(model.distribution) != about.distribution
    ]
    if owners:
        warn(
            f"{' and '.join(owners)} has a model {about.name!r} too: where both are installed, neither can be loaded "
            "by its name"
        )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, about.module)
        folders.write(folder, artifact)
        text = card(artifact, about)
        (folder / CARD).write_text(text, encoding="utf-8")
        Path(place, CARD).write_text(text, encoding="utf-8")
        Path(place, "pyproject.toml").write_text(_project(artifact, about), encoding="utf-8")
        try:
            Path(output).mkdir(parents=True, exist_ok=True)
            (wheel,) = WheelBuilder(place).build(directory=os.fspath(output), versions=["standard"])
        except OSError as error:
            reason = error.strerror or error
            raise ArtifactError(f"cannot write a wheel into {output}: {reason}") from error
    return Path(wheel)


def check_card(about: ModelCard) -> None:
    """Raise ConfigurationError unless name, version, license and summary are fit for a wheel and a hub."""
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
    from packaging.version import InvalidVersion, Version

    fault = None
    if not NAME.fullmatch(about.name):
        fault = (
            f"{about.name!r} cannot name a model: use up to 64 letters, digits, '.', '_' and '-', "
            "with a letter or digit first and last"
        )
    try:
        Version(about.version)
        canonicalize_license_expression(about.license)
    except InvalidVersion:
        fault = fault or f"{about.version!r} is not a version: use one such as 1.0.0"
    except InvalidLicenseExpression:
        fault = fault or (
            f"{about.license!r} is not an SPDX license expression: use one such as CC-BY-SA-4.0, "
            "or LicenseRef-Proprietary for one that SPDX does not list"
        )
    if "\n" in about.summary:
        fault = fault or "the summary of a model is one line"
    if fault:
        raise ConfigurationError(fault)


def card(artifact: Artifact, about: ModelCard, load: Sequence[str] = ()) -> str:
    """Return the model card in Markdown: what the model is, how to load it, its text, figures and license.

    ``load`` are lines of Python that load it; by default by its name, once it is installed.
    """
    component = _COMPONENTS.get(artifact.kind)
    call = f'nlp.add_pipe("{component}").initialize(artifact="{about.name}")'
    keys = list(dict.fromkeys(key for figure in artifact.figures for key in figure))
    figures = [[figure.get(key, "") for key in keys] for figure in artifact.figures]
    settings = artifact.config.get("settings", artifact.config)
    lines = [
        f"# {about.name} {about.version}",
        "",
        about.line,
        "",
        f"A [Tacenda](https://pypi.org/project/tacenda/) model: `{artifact.name}` ({artifact.kind}), saved by "
        f"{artifact.distribution} {artifact.version}".rstrip()
        + ".",
        "",
        "```python",
        "import tacenda",
        "",
        *(load or (f'model = tacenda.load("{about.name}")',)),
        "```",
        *(["", f"In a spaCy pipeline: `{call}`."] if component and not load else []),
        "",
        "## Training data",
        "",
        *(_table(["fact", "value"], artifact.fitted_on.items()) or ["Not recorded."]),
        "",
        "## Results",
        "",
        *(_table(keys, figures) or ["None recorded."]),
        "",
        "## License",
        "",
        f"{about.license}.",
        *(["", about.attribution] if about.attribution else []),
        "",
        "## Settings",
        "",
        "```json",
        json.dumps(settings, indent=1, ensure_ascii=False),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _table(headings: Sequence[str], rows: Any) -> list[str]:
    def row(cells: Any) -> str:
        texts = (
            f"{each:,}"
            if type(each) is int
            else each
            if isinstance(each, str)
            else json.dumps(each, ensure_ascii=False)
            for each in cells
        )
        return (
            "| " + " | ".join(" ".join(each.split()).replace("|", "\\|") for each in texts) + " |"
        )

    body = list(map(row, rows))
    return [row(headings), "| --- " * len(headings) + "|", *body] if body else []


def _project(artifact: Artifact, about: ModelCard) -> str:
    """Return the pyproject.toml of the wheel; JSON strings are TOML strings."""
    quoted = json.dumps
    needed = [quoted(each) for each in sorted(_requirements(artifact))]
    return f"""\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = {quoted(about.distribution)}
version = {quoted(about.version)}
description = {quoted(about.line)}
readme = "{CARD}"
license = {quoted(about.license)}
requires-python = ">=3.11"
dependencies = [{", ".join(needed)}]

[project.entry-points."tacenda.models"]
{quoted(about.name)} = {quoted(about.module)}

[tool.hatch.build]
ignore-vcs = true
artifacts = ["*"]

[tool.hatch.build.targets.wheel]
packages = [{quoted(about.module)}]
"""


def _requirements(artifact: Artifact) -> set[str]:
    """Return the distributions that load the model and those within it, each at least as it is installed here."""
    found = {part for each in artifact.nested.values() for part in _requirements(each)}
    version = version_of(artifact.distribution)
    return found | ({f"{artifact.distribution}>={version}"} if version else set())
