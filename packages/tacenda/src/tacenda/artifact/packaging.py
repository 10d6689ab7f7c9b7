"""`package`: a saved model as a wheel, with a model card and a name under which `tacenda.load` finds it.

The wheel holds a folder with the model and its card, and no code. It is built by hatchling (the extra
``tacenda[package]``), so that equal models give equal bytes.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacenda import reading, store
from tacenda.artifact import folder as folders
from tacenda.artifact.by_name import CARD, NAME, available
from tacenda.artifact.folder import Artifact
from tacenda.errors import ArtifactError, ConfigurationError, importing, warn
from tacenda.plugins import canonical, version_of

#: The factory of the spaCy component that takes a model, by the model's kind in the registry.
_COMPONENTS = {"embedders": "token_embeddings", "language_models": "lm_scorer"}
#: Categories of characters that a line cannot have: control characters, surrogates, separators of lines and paragraphs.
_NOT_IN_A_LINE = {"Cc", "Cs", "Zl", "Zp"}


@dataclass(frozen=True)
class ModelCard:
    """Facts for the card of a packaged model that its artifact does not hold.

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
        """The summary, or a default summary with the name."""
        return self.summary or f"The model {self.name} for Tacenda."

    @property
    def module(self) -> str:
        """The name of the model's folder in the wheel."""
        return "tacenda_model_" + re.sub(r"[^a-z0-9]+", "_", self.name.lower())

    @property
    def distribution(self) -> str:
        """The name of the distribution."""
        return self.module.replace("_", "-")


def package(
    source: str | os.PathLike[str], about: ModelCard, output: str | os.PathLike[str]
) -> Path:
    """Build a wheel of a saved model, for ``pip install``, and return its path.

    Parameters
    ----------
    source
        The folder of a saved model, which is read and checked whole.
    about
        Name, version, license and words for the card.
    output
        The folder for the wheel, which is created if it is missing.

    Raises
    ------
    ArtifactError
        The model cannot be read, or the wheel cannot be written.
    ConfigurationError
        A text of the card is not valid, or hatchling is not installed.
    """
    with importing("packaging a model needs hatchling", "tacenda[package]"):
        from hatchling.builders.wheel import WheelBuilder
    check_card(about)
    output = reading.path_of(output, ArtifactError)
    artifact = folders.read(source, whole=True)
    owners = [
        model.distribution
        for model in available()
        if canonical(model.name) == canonical(about.name)
        and canonical(model.distribution) != about.distribution
    ]
    if owners:
        warn(
            f"{' and '.join(owners)} has a model {about.name!r} too, and where both are installed, neither can be "
            "loaded by name: choose another name"
        )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, about.module)
        folders.write(folder, artifact)
        text = render_card(artifact, about)
        (folder / CARD).write_text(text, encoding="utf-8")
        Path(place, CARD).write_text(text, encoding="utf-8")
        Path(place, "pyproject.toml").write_text(
            render_pyproject(artifact, about), encoding="utf-8"
        )
        with store.writing(f"a wheel into {output}", ArtifactError):
            output.mkdir(parents=True, exist_ok=True)
            (wheel,) = WheelBuilder(place).build(directory=str(output), versions=["standard"])
    return Path(wheel)


def check_card(about: ModelCard) -> None:
    """Raise ConfigurationError if a text of a card is not valid for a wheel or a hub."""
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
    from packaging.version import InvalidVersion, Version

    for field, value in vars(about).items():
        if not isinstance(value, str):
            raise ConfigurationError(f"the {field} of a model is text, not {value!r:.80}")
    if not NAME.fullmatch(about.name):
        raise ConfigurationError(
            f"{about.name!r} cannot name a model: use up to 64 letters, digits, '.', '_' and '-', "
            "with a letter or digit first and last"
        )
    try:
        Version(about.version)
        if about.version.split() != [about.version]:
            raise InvalidVersion
    except InvalidVersion:
        raise ConfigurationError(
            f"{about.version!r} is not a version: use one such as 1.0.0"
        ) from None
    try:
        canonicalize_license_expression(about.license)
        if " ".join(about.license.split()) != about.license:
            raise InvalidLicenseExpression
    except InvalidLicenseExpression:
        raise ConfigurationError(
            f"{about.license!r} is not an SPDX license expression: use one such as CC-BY-SA-4.0, "
            "or LicenseRef-Proprietary for one that SPDX does not list"
        ) from None
    for text, rule, excluded in (
        (about.summary, "the summary of a model is one line of text", _NOT_IN_A_LINE),
        (about.attribution, "the attribution of a model is Unicode text", {"Cs"}),
    ):
        for character in text:
            if unicodedata.category(character) in excluded:
                raise ConfigurationError(f"{rule}: leave out {character!a}")


def render_card(artifact: Artifact, about: ModelCard, load: Sequence[str] = ()) -> str:
    """Return the model card in Markdown: description, loading, training data, results, license and settings.

    ``load`` is the code that loads the model, as lines of Python; by default it loads the installed model by name.
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
        *(_render_table(["fact", "value"], artifact.fitted_on.items()) or ["Not recorded."]),
        "",
        "## Results",
        "",
        *(_render_table(keys, figures) or ["None recorded."]),
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


def _render_table(headings: Sequence[str], rows: Iterable[Iterable[Any]]) -> list[str]:
    """Return the lines of a Markdown table; none if there are no rows."""
    lines = ["| " + " | ".join(map(_format_cell, row)) + " |" for row in (headings, *rows)]
    if len(lines) == 1:
        return []
    return [lines[0], "| --- " * len(headings) + "|", *lines[1:]]


def _format_cell(value: Any) -> str:
    """Return a JSON value as one line of Markdown, a whole number with commas."""
    if type(value) is int:
        return f"{value:,}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(text.split()).replace("|", "\\|")


def render_pyproject(artifact: Artifact, about: ModelCard) -> str:
    """Return the pyproject.toml of the wheel."""

    def quoted(text: str) -> str:
        # a JSON string is a TOML string, but for escaped surrogates and an unescaped U+007F
        return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

    requirements = [quoted(each) for each in sorted(_find_requirements(artifact))]
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
dependencies = [{", ".join(requirements)}]

[project.entry-points."tacenda.models"]
{quoted(about.name)} = {quoted(about.module)}

[tool.hatch.build]
ignore-vcs = true
artifacts = ["*"]

[tool.hatch.build.targets.wheel]
packages = [{quoted(about.module)}]
"""


def _find_requirements(artifact: Artifact) -> set[str]:
    """Return the distributions that load a model and those within it, each at least as it is installed here.

    Of a local version, such as 1.2+gpu, only the public part can be required.
    """
    from packaging.version import Version

    requirements = {
        requirement
        for nested in artifact.nested.values()
        for requirement in _find_requirements(nested)
    }
    if version := version_of(artifact.distribution):
        requirements.add(f"{artifact.distribution}>={Version(version).public}")
    return requirements
