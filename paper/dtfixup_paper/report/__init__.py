"""The report: the paper's tables and figures beside ours."""
