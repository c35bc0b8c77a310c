"""How long candidates take: built in warm processes, checked, timed in turns."""
