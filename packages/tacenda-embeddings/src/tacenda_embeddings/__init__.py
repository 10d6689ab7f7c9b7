"""Token embeddings from latent-variable models."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacenda_embeddings.lds.lagged_counts import LaggedCounts
    from tacenda_embeddings.lds.model import LDS
    from tacenda_embeddings.lds.settings import LDSSettings
    from tacenda_embeddings.morphological_lds import MorphologicalLDS
    from tacenda_embeddings.varembed.model import SumEmbed, VarEmbed
    from tacenda_embeddings.varembed.settings import SumEmbedSettings, VarEmbedSettings

__version__ = "0.1.0"

__all__ = [
    "LDS",
    "LDSSettings",
    "LaggedCounts",
    "MorphologicalLDS",
    "SumEmbed",
    "SumEmbedSettings",
    "VarEmbed",
    "VarEmbedSettings",
]

_HOMES = {
    "LDS": "tacenda_embeddings.lds.model",
    "LDSSettings": "tacenda_embeddings.lds.settings",
    "LaggedCounts": "tacenda_embeddings.lds.lagged_counts",
    "MorphologicalLDS": "tacenda_embeddings.morphological_lds",
    "SumEmbed": "tacenda_embeddings.varembed.model",
    "SumEmbedSettings": "tacenda_embeddings.varembed.settings",
    "VarEmbed": "tacenda_embeddings.varembed.model",
    "VarEmbedSettings": "tacenda_embeddings.varembed.settings",
}


def __getattr__(name: str) -> Any:
    # Lazy, because spaCy imports this package whenever it looks for factories.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
