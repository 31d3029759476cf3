"""People rate how neutral words are, before photos are edited with them."""
