"""What several entries of the catalogue share."""

GITHUB = "https://raw.githubusercontent.com"

PENN = (
    "Derived from the Penn Treebank (Linguistic Data Consortium, LDC99T42), whose text and "
    "annotation are licensed by the LDC. This part is circulated for research; do not pass it on."
)


def compressed(*names: str) -> tuple[str, ...]:
    """Each name, and each name compressed."""
    return tuple(name + suffix for name in names for suffix in ("", ".xz"))
