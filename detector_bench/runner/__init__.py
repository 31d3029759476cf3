"""Runs detectors over an image set: images in, one tidy prediction table per detector out; resumable."""
