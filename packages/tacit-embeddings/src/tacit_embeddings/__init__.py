"""Token embeddings from latent-variable models."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit_embeddings.lds.config import LDSConfig
    from tacit_embeddings.lds.counts import LaggedCounts
    from tacit_embeddings.lds.model import LDS
    from tacit_embeddings.lds.unseen import MorphologicalLDS
    from tacit_embeddings.varembed.config import SumEmbedConfig, VarEmbedConfig
    from tacit_embeddings.varembed.model import SumEmbed, VarEmbed

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
    "LDS": "tacit_embeddings.lds.model",
    "LDSConfig": "tacit_embeddings.lds.config",
    "LaggedCounts": "tacit_embeddings.lds.counts",
    "MorphologicalLDS": "tacit_embeddings.lds.unseen",
    "SumEmbed": "tacit_embeddings.varembed.model",
    "SumEmbedConfig": "tacit_embeddings.varembed.config",
    "VarEmbed": "tacit_embeddings.varembed.model",
    "VarEmbedConfig": "tacit_embeddings.varembed.config",
}


def __getattr__(name: str) -> Any:
    # Lazy, because spaCy imports this package whenever it looks for factories.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
