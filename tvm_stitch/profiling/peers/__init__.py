"""One module a peer, `prepare(job) -> Session`, imported in its own process only."""
