"""Training on a user's own pairs of question and SQL."""
