"""Forms of products and convolutions tuned: a model with one of them otherwise, measured."""
