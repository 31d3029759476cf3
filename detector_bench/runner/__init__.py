"""Runs detectors over an image set: images in, one tidy prediction table per detector out; resumable.

What is public stands in `run`; nothing is imported here, so that reading stored predictions stays quick.
"""
