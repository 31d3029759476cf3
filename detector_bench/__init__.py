"""detector_bench: can a detector be trusted to measure the bias of a text-to-image model?"""

__version__ = "0.1.0"
