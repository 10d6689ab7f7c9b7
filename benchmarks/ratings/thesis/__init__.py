"""Tables of Mnih (2010), chapter 5, on MovieLens-1M."""
