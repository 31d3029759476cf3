"""Image sets and finished studies in the forms of others, and cards that say what they are."""
