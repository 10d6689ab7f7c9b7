"""Token embeddings from latent-variable models."""

from typing import TYPE_CHECKING

from tacenda.lazy import attach

if TYPE_CHECKING:
    from tacenda_embeddings.lds.lagged_counts import LaggedCounts
    from tacenda_embeddings.lds.model import LDS
    from tacenda_embeddings.morphological_lds import MorphologicalLDS
    from tacenda_embeddings.settings import LDSSettings, SumEmbedSettings, VarEmbedSettings
    from tacenda_embeddings.varembed.model import SumEmbed, VarEmbed

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
        ".morphological_lds": "MorphologicalLDS",
        ".settings": "LDSSettings SumEmbedSettings VarEmbedSettings",
        ".varembed.model": "SumEmbed VarEmbed",
    },
)
