"""Weights in files: named tensors with a checksum, and packed ones."""
