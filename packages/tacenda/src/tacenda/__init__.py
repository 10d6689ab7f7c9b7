"""Tacenda: probabilistic latent-variable models as plugins for the tools people already use.

The names below are imported when they are first used, so that ``import tacenda`` costs nothing.
"""

from tacenda.lazy import TYPE_CHECKING, attach

if TYPE_CHECKING:
    from tacenda import artifact, datasets, kernels, plugins
    from tacenda.corpus import Corpus
    from tacenda.estimator import load
    from tacenda.ratings import Ratings
    from tacenda.vocabulary import Vocabulary

__version__ = "0.1.0"

__all__ = ["Corpus", "Ratings", "Vocabulary", "artifact", "datasets", "kernels", "load", "plugins"]

__getattr__, __dir__ = attach(
    __name__,
    {
        ".": "artifact datasets kernels plugins",
        ".corpus": "Corpus",
        ".estimator": "load",
        ".ratings": "Ratings",
        ".vocabulary": "Vocabulary",
    },
)
