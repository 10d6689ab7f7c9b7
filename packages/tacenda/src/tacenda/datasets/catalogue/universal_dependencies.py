"""The treebanks of Universal Dependencies, by the release tag of their repositories.

The hashes of a release's files are published nowhere, so `fetch` records them. A file found in
``TACENDA_DATA`` may be of another release: compare scores only where you know it is the same.
"""

from tacenda.datasets.catalogue.common import GITHUB
from tacenda.datasets.registry import DatasetSpec, Download

RELEASE = "r2.16"


def _treebank(
    name: str,
    language: str,
    prefix: str,
    licence: str,
    splits: tuple[str, ...] = ("train", "dev", "test"),
    optional: tuple[str, ...] = (),
    confirmed: bool = False,
) -> DatasetSpec:
    repository = f"UD_{language}-{name}"
    base = f"{GITHUB}/UniversalDependencies/{repository}/{RELEASE}"
    files = {split: f"{prefix}-ud-{split}.conllu" for split in splits}
    return DatasetSpec(
        name=f"ud-{language}-{name}".lower(),
        title=f"Universal Dependencies, {language} {name} ({', '.join(splits)})",
        licence=licence,
        licence_text=f"{licence}; see the LICENSE file of {repository}, and cite the treebank.",
        homepage=f"https://universaldependencies.org/treebanks/{prefix}/index.html",
        folders=(f"ud/{repository}", repository, f"ud-treebanks-v*/{repository}"),
        files={split: (file, f"{file}.xz") for split, file in files.items()},
        optional=frozenset(optional),
        downloads=tuple(
            Download(urls=(f"{base}/{file}",), filename=file, confirmed=confirmed)
            for file in files.values()
        ),
    )


_BOUN_2020 = DatasetSpec(
    name="ud-turkish-boun-2020",
    title="Universal Dependencies, Turkish BOUN, development state of 23 October 2020",
    licence="CC BY-SA 4.0",
    licence_text="CC BY-SA 4.0; see the LICENSE file of UD_Turkish-BOUN, and cite the treebank.",
    homepage="https://universaldependencies.org/treebanks/tr_boun/index.html",
    folders=("ud/UD_Turkish-BOUN-2020", "UD_Turkish-BOUN-2020"),
    files={
        split: (f"tr_boun-ud-{split}.conllu", f"tr_boun-ud-{split}.conllu.xz")
        for split in ("train", "dev", "test")
    },
    obtain=(
        "check commit a53400b0894c of github.com/UniversalDependencies/UD_Turkish-BOUN out into "
        "TACENDA_DATA/UD_Turkish-BOUN-2020, or use ud-turkish-boun, the current release"
    ),
)

TREEBANKS: list[DatasetSpec] = [
    _treebank("EWT", "English", "en_ewt", "CC BY-SA 4.0", confirmed=True),
    _treebank("IMST", "Turkish", "tr_imst", "CC BY-NC-SA 3.0", confirmed=True),
    _treebank("BOUN", "Turkish", "tr_boun", "CC BY-SA 4.0"),
    _BOUN_2020,
    _treebank("GSD", "German", "de_gsd", "CC BY-SA 4.0", optional=("train",), confirmed=True),
    _treebank("LIT", "German", "de_lit", "CC BY-NC-SA 4.0", splits=("test",)),
    _treebank("PUD", "German", "de_pud", "CC BY-SA 3.0", splits=("test",)),
    _treebank("TDT", "Finnish", "fi_tdt", "CC BY-SA 4.0", optional=("train",), confirmed=True),
    _treebank("FTB", "Finnish", "fi_ftb", "LGPL 3 or later", optional=("train",)),
    _treebank("OOD", "Finnish", "fi_ood", "CC BY-SA", splits=("test",)),
    _treebank("PUD", "Finnish", "fi_pud", "CC BY-SA", splits=("test",)),
]
