"""The JSON API and what guards it."""
