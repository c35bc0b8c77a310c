"""Operators of torch.export that TVM does not import, or imports wrong."""
