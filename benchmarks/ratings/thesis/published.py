"""What the thesis reports: Mnih (2010), Tables 5.1 to 5.3 and section 5.4. Not measured here."""

from __future__ import annotations

SOURCE = (
    "Mnih (2010), chapter 5: Netflix Prize, RMSE of its validation set ('probe'), which holds the most recent "
    "ratings of every user and was used for stopping; not comparable with MovieLens figures"
)

# Table 5.1: hidden units -> RMSE
MACHINES = ("RBM", "CRBM1", "CRBM2")
TABLE_1: dict[int, tuple[float, ...]] = {
    25: (0.9277, 0.9290, 0.9276),
    50: (0.9180, 0.9191, 0.9179),
    100: (0.9127, 0.9146, 0.9121),
    200: (0.9125, 0.9151, 0.9116),
}

# Table 5.2: width of the feature vectors -> RMSE
FACTORIZATIONS = ("online SVD", "online SVD with biases", "PMF", "CPMF")
TABLE_2: dict[int, tuple[float, ...]] = {
    10: (0.9316, 0.9244, 0.9212, 0.9157),
    25: (0.9266, 0.9190, 0.9121, 0.9059),
    50: (0.9269, 0.9190, 0.9086, 0.9024),
    100: (0.9284, 0.9209, 0.9066, 0.9004),
    200: (0.9283, 0.9197, 0.9052, 0.8993),
    500: (0.9272, 0.9182, 0.9037, 0.8982),
}
BIASES: dict[str, float] = {
    "user biases": 1.0634,
    "movie biases": 1.0528,
    "user and movie biases": 0.9820,
}

# Table 5.3: (model, width) -> millions of parameters; the RMSE are those of the tables above
PARAMETERS: dict[tuple[str, int], float] = {
    ("RBM", 25): 2.3,
    ("RBM", 50): 4.5,
    ("RBM", 100): 9.0,
    ("RBM", 200): 17.9,
    ("PMF", 10): 5.5,
    ("PMF", 25): 13.0,
    ("PMF", 50): 25.4,
    ("PMF", 100): 50.3,
    ("PMF", 200): 100.1,
    ("PMF", 500): 249.5,
    ("CPMF", 10): 5.6,
    ("CPMF", 25): 13.4,
    ("CPMF", 50): 26.3,
    ("CPMF", 100): 52.1,
    ("CPMF", 200): 103.6,
    ("CPMF", 500): 258.4,
}

# Section 5.4.4, Figures 5.1 and 5.2: 50 hidden units; training ratings -> (RBM, CRBM told of the training part
# alone, CRBM told of all 99 million)
CONDITIONING: dict[str, tuple[float, float, float]] = {
    "10M": (0.9914, 0.9912, 0.9814),
    "50M": (0.9339, 0.9346, 0.9259),
}
TWICE_AS_MANY = 0.9646  # the plain machine with 20M training ratings

# Section 5.4.5, Figure 5.5: users without ratings, all bins together
COLD: dict[str, float] = {"CPMF": 1.0134, "movie biases": 1.0529}
