"""Made-up questions to train on."""
