"""Which atoms number the tiles of a phase, and how large they are."""
