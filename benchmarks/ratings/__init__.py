"""Ratings: accuracy and speed beside the algorithms Surprise users have today."""
