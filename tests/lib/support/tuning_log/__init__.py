"""Tuning logs: records, a process that writes them, and a PostgreSQL server."""
