"""The command line, `python -m explainers`: explain folders of photos, list models and methods."""
