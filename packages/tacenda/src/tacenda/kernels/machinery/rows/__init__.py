"""Sums over rows that lie anywhere in a large table, in vectors, by address.

numba counts references to every view of a row, with a locked instruction that costs more than the work on the row;
and it does not find the processor's products of small whole numbers. Here the loops over columns are written in
LLVM's own vectors, which it turns into what the processor has (AVX-512 or four times as many NEON instructions).

Nothing is checked: addresses must be those of arrays that live on. Rows of any width will do; multiples of 16 do best.
Import this only from ``cpu.py`` files: it imports numba.
"""

from tacenda.kernels.machinery.rows.products import adagrad, four_dots, four_products, mix, whole
from tacenda.kernels.machinery.rows.windows import blame, blame_four, predict, predict_four

__all__ = [
    "adagrad",
    "blame",
    "blame_four",
    "four_dots",
    "four_products",
    "mix",
    "predict",
    "predict_four",
    "whole",
]
