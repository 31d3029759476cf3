"""CLIP: image embeddings, prompts, and the three kinds of encoder."""
