"""The result folder: what is written into it, and the one reader of it all."""
