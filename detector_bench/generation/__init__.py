"""From prompts to images: recipes, T2I models behind one interface, and a record of every request."""
