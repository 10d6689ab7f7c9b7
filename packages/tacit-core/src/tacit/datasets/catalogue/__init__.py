"""The datasets the core itself registers: those its examples and benchmarks measure on.

Nothing here is ours to pass on: an entry is an official address, the terms, and the names of files.
Hashes are those the owners publish (GroupLens, NLTK), or several sources agree on, or of files that
were compared with the official ones; where there is none, `fetch` records what came.
"""

from tacit.datasets.catalogue.labelled import LABELLED
from tacit.datasets.catalogue.ratings import RATINGS
from tacit.datasets.catalogue.text import TEXT
from tacit.datasets.catalogue.universal_dependencies import TREEBANKS
from tacit.datasets.catalogue.words import WORDS
from tacit.datasets.registry import DatasetSpec

#: What the entry point ``builtin`` of the group ``tacit.datasets`` names.
BUILTIN: list[DatasetSpec] = [*RATINGS, *TEXT, *LABELLED, *WORDS, *TREEBANKS]
