"""The training engine, which knows no task: steps, schedule, random streams, ranks, logs and checkpoints."""
