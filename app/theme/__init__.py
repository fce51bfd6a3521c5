"""How the page looks: neutral greys that leave the colours to the pictures, local fonts."""

from __future__ import annotations

from pathlib import Path

import gradio as gr

STYLES = [Path(__file__).with_name(name) for name in ("page.css", "compare.css")]

FRAME = Path(__file__).with_name("frame.css")


EXACT = Path(__file__).with_name("exact.js")


def head() -> str:
    """What goes into the page's head: the style of the outermost frame, and a script."""
    style, script = (path.read_text(encoding="utf-8") for path in (FRAME, EXACT))
    return f"<style>{style}</style><script>{script}</script>"


def theme() -> gr.themes.Base:
    """Gradio's base theme in quiet greys with one accent; no font is fetched from anywhere."""
    return gr.themes.Base(
        primary_hue=gr.themes.colors.teal,
        secondary_hue=gr.themes.colors.teal,
        neutral_hue=gr.themes.colors.zinc,
        font=["system-ui", "sans-serif"],
        font_mono=["ui-monospace", "monospace"],
        radius_size=gr.themes.sizes.radius_md,
        spacing_size=gr.themes.sizes.spacing_md,
    ).set(
        body_background_fill="*neutral_50",
        body_background_fill_dark="*neutral_950",
        block_background_fill="white",
        block_background_fill_dark="*neutral_900",
        block_border_width="1px",
        block_border_color="*neutral_200",
        block_border_color_dark="*neutral_800",
        block_shadow="none",
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_400",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_400",
        block_title_text_color="*neutral_800",
        block_title_text_color_dark="*neutral_200",
        block_title_text_weight="600",
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        button_primary_background_fill_dark="*primary_700",
        button_primary_background_fill_hover_dark="*primary_800",
        button_primary_text_color="white",
    )
