"""A model as it is tuned, timed as a whole beside what it is by default."""
