"""How runs are trained: one after another, several in this process, or on a Ray cluster."""
