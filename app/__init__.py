"""The page: a thin Gradio rim around the library in `explainers`."""
