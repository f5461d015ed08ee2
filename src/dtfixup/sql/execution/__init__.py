"""Read-only execution: a filter on the text, a guard for each engine, a process with a deadline."""
