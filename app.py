"""Open the page: ``python app.py``; ``gradio app.py`` and a Hugging Face Space run it too.

Importing this file builds the page; it neither loads a model nor starts a server.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

__path__ = [str(Path(__file__).resolve().with_name("app"))]  # `gradio app.py` needs it

from app.loader import resolve
from app.options import address_problem, mcp_problem, parse, serving
from app.page import Page

options = parse(None if __name__ == "__main__" else [])
given = resolve(options.model, options.arch, options.labels, options.device, options.dtype)
if problem := given.problem():
    sys.exit(problem)
page = Page(given, options.lang)
demo = page.demo

if __name__ == "__main__":
    if problem := mcp_problem(options.mcp) or address_problem(options.host, options.port):
        sys.exit(problem)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        page.launch(**serving(options), prevent_thread_lock=True)
    except OSError as error:  # none of a hundred ports is free, or it was taken just now
        sys.exit(f"The page cannot be served here ({error}); choose another --host or --port.")
    page.warm()  # after the page is served, or it would delay the first one
    demo.block_thread()
