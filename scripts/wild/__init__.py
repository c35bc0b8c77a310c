"""Architectures of transformers, timm, torchvision and plain PyTorch, small, of random weights.

Run `python scripts/wild.py --list` for the names.
"""
