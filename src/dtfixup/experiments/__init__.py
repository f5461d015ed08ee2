"""Experiments that show the method at work, one file each."""
