"""How a nest reads and writes memory: buffers, places, fetches, streamed stores."""
