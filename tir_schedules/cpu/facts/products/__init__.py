"""Register tiles: their rows, lanes and operands, and what may follow them."""
