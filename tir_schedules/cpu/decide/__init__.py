"""From facts and costs to a plan: phases, tiles, nests, what is fetched and streamed."""
