"""The parts that detectors share: decoding, face boxes, person boxes, face chips, network outputs."""
