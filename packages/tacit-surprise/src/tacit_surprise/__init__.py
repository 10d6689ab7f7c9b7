"""Rating models as Surprise algorithms: the package is in place, its models arrive with later releases."""

__version__ = "0.1.0"
