"""Rewrites of a kernel's stages that leave what it computes as it is."""
