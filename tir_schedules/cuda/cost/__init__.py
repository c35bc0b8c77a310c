"""What a plan takes: bytes, occupancy and latencies, in ns."""
