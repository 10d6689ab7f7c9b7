"""Operations of the restricted Boltzmann machines of words."""
