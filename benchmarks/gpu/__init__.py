"""Operations on a CUDA device against their floors."""
