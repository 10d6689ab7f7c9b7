"""Token embeddings from latent-variable models."""

from typing import TYPE_CHECKING

from tacenda.lazy import attach

if TYPE_CHECKING:
    from tacenda_embeddings.lds.lagged_counts import LaggedCounts
    from tacenda_embeddings.lds.model import LDS
    from tacenda_embeddings.lds.settings import LDSSettings
    from tacenda_embeddings.morphological_lds import MorphologicalLDS
    from tacenda_embeddings.varembed.model import SumEmbed, VarEmbed
    from tacenda_embeddings.varembed.settings import SumEmbedSettings, VarEmbedSettings

__version__ = "0.1.0"

# fmt: off
__all__ = [
    "LDS", "LDSSettings", "LaggedCounts", "MorphologicalLDS", "SumEmbed", "SumEmbedSettings",
    "VarEmbed", "VarEmbedSettings",
]
# fmt: on

# lazy, because spaCy imports this package whenever it looks for factories
__getattr__, __dir__ = attach(
    __name__,
    {
        ".lds.lagged_counts": "LaggedCounts",
        ".lds.model": "LDS",
        ".lds.settings": "LDSSettings",
        ".morphological_lds": "MorphologicalLDS",
        ".varembed.model": "SumEmbed VarEmbed",
        ".varembed.settings": "SumEmbedSettings VarEmbedSettings",
    },
)
