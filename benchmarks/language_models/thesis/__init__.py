"""The questions of Mnih (2010), chapters 3 and 4, asked of Penn Treebank and WikiText-2."""

from benchmarks import reporting

published = reporting.published(__file__)  # what the thesis reports; not measured here
