"""The datasets the core itself registers: those its examples and benchmarks measure on.

Nothing here is ours to pass on: an entry is an official address, the terms, and the names of files.
Hashes are those the owners publish (GroupLens, NLTK), or several sources agree on, or of files that
were compared with the official ones; where there is none, `fetch` records what came.
"""

from tacenda.datasets.catalogue.labelled import LABELLED
from tacenda.datasets.catalogue.ratings import RATINGS
from tacenda.datasets.catalogue.text import TEXT
from tacenda.datasets.catalogue.universal_dependencies import TREEBANKS
from tacenda.datasets.catalogue.words import WORDS
from tacenda.datasets.registry import DatasetSpec

#: What the entry point ``builtin`` of the group ``tacenda.datasets`` names.
BUILTIN: list[DatasetSpec] = [*RATINGS, *TEXT, *LABELLED, *WORDS, *TREEBANKS]
