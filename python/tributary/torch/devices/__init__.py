"""Sums tensors of accelerators, such as GPUs, over the fabric."""
