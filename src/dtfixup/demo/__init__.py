"""The kinship task, which shows the method at work in minutes, and the depth check."""
