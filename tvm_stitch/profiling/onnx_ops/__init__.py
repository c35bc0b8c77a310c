"""ONNX graphs run op by op in torch or jax.numpy, for the peers that read no ONNX themselves.

`table.py` holds the rows that both columns share and joins the columns; `graph.py` reads a model
into nodes and weights and executes them over a column.
"""
