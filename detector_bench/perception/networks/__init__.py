"""Networks that judge crops: any ONNX file, and those of particular detectors."""
