"""Tables of Mnih (2010), chapters 3 and 4, on Penn Treebank and WikiText-2."""
