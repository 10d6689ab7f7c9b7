"""The questions of Mnih (2010), chapter 5, asked of MovieLens-1M."""
