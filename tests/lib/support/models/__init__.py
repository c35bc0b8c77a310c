"""Small models that many tests compile."""
