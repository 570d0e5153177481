"""Weft: transformer ablations you can believe."""
