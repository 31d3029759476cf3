"""Person and face boxes by YOLO networks."""
