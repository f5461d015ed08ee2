"""What every training run needs and no task owns: random streams, learning-rate schedules."""
