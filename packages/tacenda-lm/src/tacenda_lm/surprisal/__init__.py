"""Surprisal of the words of running text, one row a word, as studies of reading and production use it."""
