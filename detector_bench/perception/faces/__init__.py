"""Face boxes and aligned faces."""
