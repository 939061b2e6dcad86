"""Measures kernels and their rivals, and writes records; installed as ``tk.benchmarks``."""
