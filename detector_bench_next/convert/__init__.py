"""Image sets in and out: checking, importing, exporting."""
