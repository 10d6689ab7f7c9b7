"""How much of the times in which people read words a model's surprisal explains: see ``__main__``."""
