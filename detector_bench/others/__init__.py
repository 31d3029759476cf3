"""Scores of other bias benchmarks, by human labels and by every detector: who can be trusted for which."""
