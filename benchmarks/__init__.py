"""Scripts that measure speed, memory and accuracy; run them as ``python -m benchmarks.NAME``."""
