"""What the thesis reports: Mnih (2010), Tables 3.1 to 4.12. Associated Press News, not measured here."""

from __future__ import annotations

DATA = "APNews"
SOURCE = (
    "Mnih (2010), chapters 3 and 4: APNews, 14 million words of training text, 17,964 types, one running text; not "
    "comparable with figures of other texts"
)

# Table 3.1, 10 million words: model -> (alone, mixed with KN6)
TABLE_3_1: dict[str, tuple[float, float | None]] = {
    "FRBM, 2 words": (169.4, 110.6),
    "temporal FRBM, 2 words": (127.3, 95.6),
    "LBL, 2 words": (132.9, 102.2),
    "LBL, 5 words": (124.7, 96.5),
    "back-off GT3": (135.3, None),
    "back-off KN3": (124.3, None),
    "back-off GT6": (124.4, None),
    "back-off KN6": (116.2, None),
}

# Table 3.2: context -> (alone, mixed by halves with KN5, mixed by the fitted share, the share)
LBL: dict[int, tuple[float, float, float, float]] = {
    5: (117.0, 97.2, 96.9, 0.57),
    10: (107.8, 92.2, 91.4, 0.62),
}
BACKOFF: dict[int, float] = {3: 129.8, 5: 123.2, 6: 123.5, 9: 124.6}

# Tables 3.3, 3.4, 4.10 to 4.12, from the rarest words to the most frequent
BIN_WORDS = (14199, 2428, 870, 340, 92, 22, 6, 4, 2, 1)
NEXT_WORD: dict[str, tuple[float, ...]] = {
    "LBL": (11599.0, 2489.1, 937.2, 394.7, 125.2, 30.2, 16.3, 10.6, 7.5, 8.8),
    "KN5": (13041.0, 2336.3, 819.7, 349.8, 120.6, 32.0, 19.0, 12.8, 8.9, 10.5),
    "HLBL": (14353.4, 2612.4, 917.8, 371.8, 115.3, 27.0, 14.9, 9.8, 6.7, 7.7),
    "HLBL random": (23327.1, 3671.1, 1199.0, 450.3, 132.1, 29.3, 16.0, 10.3, 7.0, 7.8),
}
LAST_WORD: dict[str, tuple[float, ...]] = {
    "LBL": (65.5, 67.2, 62.9, 72.1, 118.3, 148.4, 136.1, 134.3, 315.7, 272.5),
    "KN5": (89.7, 75.4, 63.5, 70.0, 114.0, 147.1, 132.5, 140.1, 342.3, 287.9),
    "HLBL": (68.4, 66.9, 60.5, 68.4, 112.3, 139.6, 127.4, 123.5, 299.9, 261.4),
}

# Table 4.1
RANDOM: dict[int, float] = {1: 151.0, 2: 140.3, 4: 132.8}
INTERPOLATED: dict[int, float] = {2: 174.2, 3: 125.6, 6: 119.2, 8: 120.2}

# Table 4.2: width -> (random tree, clustered tree)
WIDTHS: dict[int, tuple[float, float]] = {
    25: (191.6, 162.4),
    50: (166.4, 141.7),
    75: (156.4, 134.8),
    100: (151.2, 131.3),
}

# Tables 4.3 to 4.5: tree -> code length, codes, nodes; alone, by halves, fitted, share; minutes an epoch
TREES: dict[str, tuple[float, float, int]] = {
    "RANDOM": (14.2, 1.0, 17963),
    "BALANCED": (14.3, 1.0, 17963),
    "ADAPTIVE": (16.1, 1.0, 17963),
    "ADAPTIVE(0.25)": (24.2, 1.3, 22995),
    "ADAPTIVE(0.4)": (29.0, 1.7, 30296),
    "ADAPTIVE(0.4) x 2": (69.1, 3.4, 61014),
    "ADAPTIVE(0.4) x 4": (143.2, 6.8, 121980),
}
MODELS: dict[str, tuple[float, float, float, float]] = {
    "RANDOM": (151.2, 107.2, 106.0, 0.34),
    "BALANCED": (131.3, 99.9, 99.7, 0.43),
    "ADAPTIVE": (127.0, 98.3, 98.2, 0.45),
    "ADAPTIVE(0.25)": (124.4, 97.5, 97.4, 0.47),
    "ADAPTIVE(0.4)": (123.3, 97.2, 97.1, 0.47),
    "ADAPTIVE(0.4) x 2": (115.7, 95.3, 95.3, 0.52),
    "ADAPTIVE(0.4) x 4": (112.1, 94.4, 94.3, 0.54),
    "LBL": (117.0, 94.0, 94.0, 0.50),
}
MINUTES: dict[str, int] = {
    "RANDOM": 4,
    "BALANCED": 4,
    "ADAPTIVE": 4,
    "ADAPTIVE(0.25)": 6,
    "ADAPTIVE(0.4)": 7,
    "ADAPTIVE(0.4) x 2": 16,
    "ADAPTIVE(0.4) x 4": 32,
    "LBL": 6420,
}

# Table 4.6: (four replicas of one of four trees, the four trees together)
DIVERSITY: dict[str, tuple[tuple[float, ...], float]] = {
    "ADAPTIVE(0.4)": ((112.6, 112.2, 112.3, 112.7), 112.1),
    "RANDOM": ((134.0, 136.0, 134.9, 134.6), 133.9),
    "NOISY-ADAPTIVE(0.4)": ((111.8, 112.7, 113.1, 112.1), 111.3),
}

# Table 4.7: context -> (alone, by halves, fitted)
CONTEXTS: dict[int, tuple[float, float, float]] = {
    1: (170.5, 115.9, 112.8),
    2: (128.7, 103.6, 103.4),
    3: (119.4, 98.7, 98.7),
    5: (112.1, 94.4, 94.3),
    10: (104.3, 89.6, 89.2),
    20: (99.1, 86.3, 85.6),
}

# Table 4.8: (bias, variance), nats a word; Table 4.9: without each eighth, and the mean of the eight predictions
BIAS_VARIANCE: dict[str, tuple[float, float]] = {"HLBL": (4.629, 0.111), "KN6": (4.771, 0.042)}
EIGHTHS: dict[str, tuple[float, ...]] = {
    "HLBL": (115.1, 114.6, 114.1, 113.9, 114.0, 114.1, 114.2, 114.7),
    "KN6": (124.7, 123.5, 122.8, 122.7, 122.8, 123.2, 122.5, 122.3),
}
COMBINED: dict[str, float] = {"HLBL": 102.4, "KN6": 118.0}
