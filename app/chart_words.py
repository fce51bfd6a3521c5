"""What charts say in the visitor's language, where this machine has letters for it."""

from __future__ import annotations

from collections.abc import Mapping

from app.texts import language, told


def chart_words(lang: str) -> Mapping[str, str]:
    """The words of `explainers.render.chart_style.WORDS` in ``lang``.

    English where the machine has no font with these letters; the text under each chart is in
    the visitor's language all the same.
    """
    # matplotlib is slow to import
    from explainers.render.chart_style import WORDS, chinese_font
    from explainers.render.fonts import usual

    named = told(language(lang), "figures")
    if chinese_font() is None and not all(usual(named[key]) for key in WORDS):
        return WORDS
    return {key: named[key] for key in WORDS}
