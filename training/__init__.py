"""Train, fine-tune and evaluate Vision Transformers: ``python -m training --help``."""
