"""Find, download, read and generate datasets.

``locate(name)`` finds a dataset in the folder that ``TACENDA_DATA`` names or in the cache; ``fetch(name)`` downloads it
into the cache from its official address. The modules `conllu`, `columns`, `treebank` and `word_similarity` read file
formats; `synthetic_text` and `synthetic_ratings`, which must be imported as modules, generate data with known
parameters.
"""

from tacenda.datasets import columns, conllu, treebank, word_similarity
from tacenda.datasets.catalogue import (
    Dataset,
    DatasetSpec,
    Download,
    available,
    cache_root,
    get,
    locate,
)
from tacenda.datasets.fetching import Fetched, fetch

__all__ = [
    "Dataset", "DatasetSpec", "Download", "Fetched", "available", "cache_root", "columns",
    "conllu", "fetch", "get", "locate", "treebank", "word_similarity",
]  # fmt: skip
