"""What stands beside a map: its meaning, its class, its figures and what to be careful about."""

from __future__ import annotations

from html import escape

from app.texts import language, of_method, say, tell, told
from explainers import HeatMap, methods
from explainers.heatmap import Target
from explainers.models.labels import short
from explainers.render.contrast import contrast_score
from explainers.render.describe import alt_text
from explainers.sentence import Sentence
from explainers.window_notes import windows_title

SEEN_ALL = 0.995
"""Above this share of the photo, what was cut off is no more than rounding."""

IN_NOTES = {"completeness_error_percent": "completeness"}
"""Figures that need no line of their own when a note of this key tells them already."""


def waiting(lang: str, cost: str = "") -> str:
    """A card whose map has not been begun; cost: what it will take, in words."""
    return line("vs-state", f"{say(lang, 'card_waiting')} {cost}".strip())


def working(lang: str, share: float, cost: str = "") -> str:
    """A card whose map is being made, with a bar for how much of it is done."""
    return bar(share) + line("vs-state", f"{say(lang, 'card_working')} {cost}".strip())


def stopped(lang: str) -> str:
    """A card whose map was cancelled."""
    return line("vs-state", say(lang, "card_stopped"))


def refused(lang: str, reason: Sentence | None) -> str:
    """A card without a map, and why; None for a fault of the program."""
    return line("vs-refused", tell(lang, reason) if reason else say(lang, "unexpected"))


def done(lang: str, heat: HeatMap, scale_note: Sentence | None = None) -> str:
    """The text under a map: what it means, whose class it speaks of, its figures and notes."""
    method = methods()[heat.method]
    meaning = line("vs-meaning", of_method(lang, method, "meaning"))
    figures = "".join(f"<li>{escape(text)}</li>" for text in _figures(lang, heat))
    notes = "".join(line("vs-note", text) for text in _notes(lang, heat, scale_note))
    limits = (
        f"<details><summary>{escape(say(lang, 'limits'))}</summary>"
        f"{line('', of_method(lang, method, 'limits'))}</details>"
    )
    facts = f"<ul class='vs-figures'>{figures}</ul>" if figures else ""
    heading = line("vs-class", _class(lang, heat))
    return heading + meaning + _contrast(lang, heat) + facts + notes + limits


def description(lang: str, heat: HeatMap) -> str:
    """The map in words, for readers who cannot see it."""
    sentence = alt_text(heat)
    sentence.values["title"] = _title(lang, heat)
    return tell(lang, sentence)


def target_name(target: Target) -> str:
    """A class as people call it: the first of its names, and how likely the model finds it."""
    return f"{short(target.label)} ({100 * target.probability:.1f} %)"


def bar(share: float) -> str:
    """A progress bar; ``share`` of it is done (0..1)."""
    percent = f"{100 * min(max(share, 0.0), 1.0):.0f}"
    return (
        f"<div class='vs-bar' role='progressbar' aria-valuemin='0' aria-valuemax='100' "
        f"aria-valuenow='{percent}'><div style='width:{percent}%'></div></div>"
    )


def _title(lang: str, heat: HeatMap) -> str:
    """What a map is called: its method, and how many separate looks it is made of."""
    title = of_method(lang, methods()[heat.method], "title")
    if not heat.windows:
        return title
    return tell(lang, windows_title(title, len(heat.windows)))


def _class(lang: str, heat: HeatMap) -> str:
    if heat.windows and heat.target is None:
        return _title(lang, heat)
    if not methods()[heat.method].class_specific or heat.target is None:
        return say(lang, "class_any")
    if heat.against is None:
        return say(lang, "class_one", target=target_name(heat.target))
    return say(
        lang,
        "class_contrast",
        target=target_name(heat.target),
        against=target_name(heat.against),
    )


def _contrast(lang: str, heat: HeatMap) -> str:
    """What the score is and what the removal watches, where a contrast makes them two things."""
    score = contrast_score(heat)
    if score is None or heat.target is None:
        return ""
    text = tell(lang, score)
    if not heat.windows:  # of which no removal is measured
        text += " " + say(lang, "contrast_measured", target=short(heat.target.label))
    return line("vs-note", text)


def _figures(lang: str, heat: HeatMap) -> list[str]:
    lines = []
    if heat.prefix_share is not None:
        lines.append(say(lang, "figure_prefix", percent=f"{100 * heat.prefix_share:.1f}"))
    named, said = told(language(lang), "figures"), {getattr(note, "key", "") for note in heat.notes}
    for name, value in heat.figures.items():
        if name in IN_NOTES and IN_NOTES[name] in said:
            continue
        template = named.get(name, "{name}: {value}")
        lines.append(template.format(name=name.replace("_", " "), value=f"{value:.3g}"))
    return lines


def _notes(lang: str, heat: HeatMap, scale_note: Sentence | None) -> list[str]:
    """What to be careful about, as plain sentences."""
    lines = []
    if heat.flat:
        lines.append(say(lang, "note_flat"))
    seen = heat.geometry.seen_share
    if seen < SEEN_ALL:
        lines.append(say(lang, "note_seen", percent=f"{100 * seen:.0f}"))
    sentences = [*heat.notes, *([scale_note] if scale_note is not None else [])]
    return lines + [tell(lang, sentence) for sentence in sentences]


def line(css: str, text: str) -> str:
    """A paragraph of plain text with a CSS class."""
    return f"<p class='{css}'>{escape(text)}</p>"
