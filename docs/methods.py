"""Write docs/methods.md from the methods' declarations and the table that
`python -m benchmarks.measures` made: python docs/methods.py"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from explainers.command.cards import PATCHES, markdown

HEAD = f"""# The methods

Made by `python docs/methods.py` from each method's own declaration; do not edit it here. The same
cards in a terminal: `python -m explainers methods NAME`.

*Class?* says whether another class gets another map; *signed?* whether a map says what speaks for
and what speaks against; *forward passes* what a map costs beyond the one pass that answers, at its
default settings on {PATCHES} patches, a backward pass counted as two. The three passes of the gradient
methods are shared: the second such map of a class costs next to nothing.

"""


def document() -> str:
    """The whole page."""
    table = ROOT / "docs/methods_table.md"
    measured = table.read_text(encoding="utf-8") if table.exists() else ""
    return HEAD + markdown() + ("\n" + measured if measured else "")


if __name__ == "__main__":
    (ROOT / "docs/methods.md").write_text(document(), encoding="utf-8")
