"""Tests of detectors and stages."""
