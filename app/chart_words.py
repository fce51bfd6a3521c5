"""What charts say in the visitor's language, where this machine has letters for it."""

from __future__ import annotations

from collections.abc import Mapping

from app.texts import language, texts


def chart_words(lang: str) -> Mapping[str, str]:
    """The words of `explainers.render.chart_style.WORDS` in ``lang``.

    English where the machine has no font with Chinese letters; the text under each chart is
    in the visitor's language all the same.
    """
    from explainers.render.chart_style import WORDS, chinese_font  # matplotlib is slow to import

    code = language(lang)
    if code == "zh" and chinese_font() is None:
        return WORDS
    told = texts(code)["figures"]
    return {key: told[key] for key in WORDS}
