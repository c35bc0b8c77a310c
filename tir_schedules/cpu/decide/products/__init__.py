"""Rows, lanes and packing of register tiles, and what is done behind them."""
