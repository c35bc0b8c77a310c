"""What is fetched ahead, and what is stored past the caches."""
