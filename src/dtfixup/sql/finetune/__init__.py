"""Fine-tuning on a user's own question/SQL pairs."""
