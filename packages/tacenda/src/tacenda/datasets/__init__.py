"""Datasets: where they officially live, how to get them, where they are here, and readers of them.

``locate(name)`` finds a dataset in the folder that ``TACENDA_DATA`` names or in the cache;
``fetch(name)`` brings it into the cache from its official address; the modules `conllu`,
`columns`, `treebank` and `word_similarity` read the formats.
"""

from tacenda.datasets import columns, conllu, treebank, word_similarity
from tacenda.datasets.fetching import Fetched, fetch
from tacenda.datasets.places import Dataset, cache_root, locate
from tacenda.datasets.registry import DatasetSpec, Download, available, get

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
