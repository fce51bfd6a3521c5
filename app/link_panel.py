"""Under the classes: the view as a link or a recipe, and back."""

from __future__ import annotations

from dataclasses import dataclass

import gradio as gr

from app.files import RecipeFile

ENDINGS = [".json", ".npz", ".png", ".pdf", ".svg", ".tiff"]
"""Files that hold the recipe of a view, or that of maps."""


@dataclass
class LinkPanel:
    """address: the link that was copied, to be seen and copied again; before a click, what the
    script of the buttons tells of the page. note: what could not be restored, or is not in it."""

    copy: gr.Button
    save: gr.Button
    open: gr.UploadButton
    address: gr.Textbox
    note: gr.HTML


def build(t: gr.I18n) -> LinkPanel:
    """Lay the row out: three buttons, and what they have to say."""
    with gr.Row(elem_classes="vs-links", elem_id="vs-links"):
        copy = gr.Button(t("link_copy"), size="sm", min_width=60, elem_id="vs-link-copy")
        save = gr.Button(t("link_save"), size="sm", min_width=60, elem_id="vs-link-save")
        opened = RecipeFile(
            t("link_open"),
            file_types=ENDINGS,
            size="sm",
            min_width=60,
            elem_id="vs-link-open",
        )
    address = gr.Textbox(
        visible="hidden",
        label=t("link_address"),
        interactive=False,
        max_lines=1,
        buttons=["copy"],
        elem_id="vs-link-address",
    )
    note = gr.HTML(elem_classes="vs-notes", elem_id="vs-link-note")
    return LinkPanel(copy, save, opened, address, note)
