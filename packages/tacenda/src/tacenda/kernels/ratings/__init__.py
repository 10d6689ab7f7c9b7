"""Operations of the rating models: gradient descent, block solves, scores, Boltzmann machines."""
