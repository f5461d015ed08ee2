"""The tables and figures of the paper: training runs, results and the report."""
