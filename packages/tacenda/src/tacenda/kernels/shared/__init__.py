"""Operations that several families of models use."""
