import support.timeless  # noqa: F401
