"""Rewrites of Relax: legalisation, layouts, weights in panels, forms of convolutions."""
