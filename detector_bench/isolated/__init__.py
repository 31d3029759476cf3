"""Detectors in a Python environment of their own: the environments, and the process that one runs in."""
