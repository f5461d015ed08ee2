"""Words, numbers and dates of a question, and what the world calls things."""
