"""Queries of the grammar in the dialects of PostgreSQL and MariaDB."""
