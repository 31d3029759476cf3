"""Facial skin: which pixels of a face are skin, and their mean colour."""
