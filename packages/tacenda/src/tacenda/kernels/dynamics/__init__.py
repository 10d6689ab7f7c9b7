"""Operations of the linear dynamical system: lagged counts and linear recurrences."""
