"""Token embeddings from latent-variable models."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacenda_embeddings.lds.config import LDSConfig
    from tacenda_embeddings.lds.counts import LaggedCounts
    from tacenda_embeddings.lds.model import LDS
    from tacenda_embeddings.lds.unseen import MorphologicalLDS
    from tacenda_embeddings.varembed.config import SumEmbedConfig, VarEmbedConfig
    from tacenda_embeddings.varembed.model import SumEmbed, VarEmbed

__version__ = "0.1.0"

__all__ = [
    "LDS",
    "LDSConfig",
    "LaggedCounts",
    "MorphologicalLDS",
    "SumEmbed",
    "SumEmbedConfig",
    "VarEmbed",
    "VarEmbedConfig",
]

_HOMES = {
    "LDS": "tacenda_embeddings.lds.model",
    "LDSConfig": "tacenda_embeddings.lds.config",
    "LaggedCounts": "tacenda_embeddings.lds.counts",
    "MorphologicalLDS": "tacenda_embeddings.lds.unseen",
    "SumEmbed": "tacenda_embeddings.varembed.model",
    "SumEmbedConfig": "tacenda_embeddings.varembed.config",
    "VarEmbed": "tacenda_embeddings.varembed.model",
    "VarEmbedConfig": "tacenda_embeddings.varembed.config",
}


def __getattr__(name: str) -> Any:
    # Lazy, because spaCy imports this package whenever it looks for factories.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
