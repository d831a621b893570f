"""Readings of device kernels on a processor: plain C, and the text of CUDA on threads."""
