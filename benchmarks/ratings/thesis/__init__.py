"""The questions of Mnih (2010), chapter 5, asked of MovieLens-1M."""

from benchmarks import reporting

published = reporting.published(__file__)  # what the thesis reports; not measured here
