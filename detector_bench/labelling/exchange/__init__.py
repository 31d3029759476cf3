"""Labels in and out in the formats of other programs."""
