"""Explanation methods, one a file: importing this package imports, and so registers, them all."""

import pkgutil
from importlib import import_module

from explainers.methods.explain import Cancelled, explain

for _file in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")

__all__ = ["Cancelled", "explain"]
