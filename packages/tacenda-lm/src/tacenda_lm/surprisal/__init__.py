"""Tables of the surprisal of words in running text, for studies of reading and production."""
