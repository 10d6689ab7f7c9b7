"""Datasets: where they officially live, how to get them, where they are here, and readers of them.

``locate(name)`` finds a dataset in the folder that ``TACENDA_DATA`` names or in the cache;
``fetch(name)`` brings it into the cache from its official address; the modules `conllu`,
`columns`, `treebank` and `word_similarity` read the formats.
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
    "Dataset",
    "DatasetSpec",
    "Download",
    "Fetched",
    "available",
    "cache_root",
    "columns",
    "conllu",
    "fetch",
    "get",
    "locate",
    "treebank",
    "word_similarity",
]
