"""`pull` and `push`: model repositories of a hub, through the client ``huggingface_hub`` (the extra ``tacenda[hub]``).

A repository holds the folder of a saved model and its card, ``README.md`` with front matter, and nothing else is read
from it. Nothing is fetched unless one of these functions is called; what is fetched is checked like any model before
it takes its place, and nothing in it can run.

In both functions ``endpoint`` and ``token`` are the address of the hub and a token for what is not public; by default
those of ``huggingface_hub``, which reads ``HF_ENDPOINT`` and ``HF_TOKEN``.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tacenda.artifact import folder as folders
from tacenda.artifact.by_name import CARD, MANIFEST
from tacenda.artifact.packaging import ModelCard, check_card, render_card
from tacenda.errors import ArtifactError, ConfigurationError, describe, importing

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")
#: The files of a model and its card, for the client to fetch; what they hold is checked as they are read.
_PARTS = (
    CARD,
    *(
        folder + file
        for folder in ("", "nested-*/")
        for file in (MANIFEST, "tensors-*.safetensors", "mapped-*.safetensors")
    ),
)
#: The hub's names of licenses that SPDX lists.
_LICENSES = {
    "afl-3.0", "agpl-3.0", "apache-2.0", "artistic-2.0", "bsd-2-clause", "bsd-3-clause", "bsd-3-clause-clear",
    "bsl-1.0", "c-uda", "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0", "cc-by-nc-2.0", "cc-by-nc-3.0",
    "cc-by-nc-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0", "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0",
    "cc-by-nd-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0", "cc0-1.0", "cdla-permissive-1.0", "cdla-permissive-2.0",
    "cdla-sharing-1.0", "ecl-2.0", "epl-1.0", "epl-2.0", "etalab-2.0", "eupl-1.1", "eupl-1.2", "gfdl", "gpl",
    "gpl-2.0", "gpl-3.0", "isc", "lgpl", "lgpl-2.1", "lgpl-3.0", "lppl-1.3c", "mit", "mpl-2.0", "ms-pl", "ncsa",
    "odbl", "odc-by", "ofl-1.1", "osl-3.0", "pddl", "postgresql", "unlicense", "wtfpl", "zlib",
}  # fmt: skip
#: The names that stand for every version of a license.
_ANY_VERSION = {"c-uda", "gfdl", "gpl", "lgpl", "odbl", "odc-by", "pddl"}


def pull(
    repository: str,
    output: str | os.PathLike[str],
    *,
    revision: str = "main",
    endpoint: str | None = None,
    token: str | None = None,
) -> Path:
    """Fetch a model into the folder ``output``, replacing an existing model in one step; return the folder.

    ``repository`` is ``OWNER/NAME``, and ``revision`` a branch, a tag or a commit; for ``endpoint`` and ``token`` see
    the module.

    Raises
    ------
    ConfigurationError
        ``repository`` or ``revision`` is not valid, or the client is not installed.
    ArtifactError
        The repository cannot be reached, or has no complete and valid model.
    """
    _check_repository(repository)
    if not isinstance(revision, str) or not _REVISION.fullmatch(revision) or ".." in revision:
        raise ConfigurationError(f"{revision!r} is not a branch, tag or commit")
    client = _import_client()
    with tempfile.TemporaryDirectory() as place:
        try:
            client.snapshot_download(
                repository,
                revision=revision,
                local_dir=place,
                allow_patterns=list(_PARTS),
                endpoint=endpoint,
                token=token,
            )
        except Exception as error:  # the client raises what its network layer does
            raise ArtifactError(
                f"cannot fetch {repository} ({revision}): {describe(error)}"
            ) from error
        try:
            artifact = folders.read(place, whole=True)
        except ArtifactError as error:
            reason = str(error).replace(place, repository)
            raise ArtifactError(
                f"{repository} ({revision}) is not a valid model: {reason}"
            ) from error
    folders.write(output, artifact)
    return Path(output)


def push(
    source: str | os.PathLike[str],
    repository: str,
    about: ModelCard,
    *,
    private: bool = False,
    endpoint: str | None = None,
    token: str | None = None,
) -> str:
    """Write a saved model and its card into a repository of a hub; return the address of the commit.

    The whole model in the folder ``source`` is read and checked. If there is no repository ``OWNER/NAME``, it is
    created, and only then does ``private`` count. For ``endpoint`` and ``token`` see the module.

    Raises
    ------
    ConfigurationError
        The name of the repository or a text of the card is not valid, or the client is not installed.
    ArtifactError
        The model cannot be read, or the hub does not take it.
    """
    _check_repository(repository)
    client = _import_client()
    check_card(about)
    artifact = folders.read(source, whole=True)
    name = repository.partition("/")[2]
    load = (
        "from tacenda.artifact.hub import pull",
        "",
        f'model = tacenda.load(pull("{repository}", "{name}"))',
    )
    # front matter is YAML, in which JSON strings are strings
    tags = json.dumps(["tacenda", artifact.kind, artifact.name])
    head = f'---\n{_render_license(about.license)}library_name: "tacenda"\ntags: {tags}\n---\n\n'
    with tempfile.TemporaryDirectory() as place:
        folders.write(place, artifact)
        Path(place, CARD).write_text(
            head + render_card(artifact, about, load=load), encoding="utf-8"
        )
        api = client.HfApi(endpoint=endpoint, token=token)
        try:
            api.create_repo(repository, private=private, exist_ok=True)
            files = {path.relative_to(place).as_posix(): path for path in Path(place).rglob("*")}
            changes = [
                client.CommitOperationAdd(name, path)
                for name, path in sorted(files.items())
                if path.is_file() and _is_part(name)
            ]
            changes += [
                client.CommitOperationDelete(name)
                for name in sorted(set(api.list_repo_files(repository)) - files.keys())
                if _is_part(name)
            ]
            # one commit: nobody sees half a model
            commit = api.create_commit(
                repository, changes, commit_message=f"{about.name} {about.version}"
            )
        except Exception as error:  # as above
            raise ArtifactError(f"cannot write {repository}: {describe(error)}") from error
    return str(commit.commit_url)


def _is_part(name: str) -> bool:
    return any(fnmatchcase(name, part) for part in _PARTS)


def _render_license(expression: str) -> str:
    """Return the front matter of an SPDX license: the hub's name, or "other" and a name such as ``mit-or-isc``."""
    license = re.sub(r"(-only|-or-later|\+)$", "", expression.lower())
    family = re.sub(r"-[\d.]+$", "", license)
    name = family if family in _ANY_VERSION and license not in _LICENSES else license
    if name in _LICENSES:
        return f'license: "{name}"\n'
    name = re.sub(r"[^a-z0-9.]+", "-", expression.lower()).strip("-")
    return f'license: "other"\nlicense_name: "{name}"\n'


def _check_repository(name: str) -> None:
    if not isinstance(name, str) or not _REPOSITORY.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is not a repository of a hub: write OWNER/NAME, of letters, digits, '.', '_' and '-'"
        )


def _import_client() -> Any:
    with importing("repositories of a hub need huggingface_hub", "tacenda[hub]"):
        import huggingface_hub
    return huggingface_hub
