"""Logical reading comprehension (section 4.2): passages, questions and options in, the right option out."""
