"""The questions of Mnih (2010), chapters 3 and 4, asked of Penn Treebank and WikiText-2."""
