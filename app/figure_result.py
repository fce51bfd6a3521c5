"""A figure that was made: the picture, its file, its caption and the BibTeX it owes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr


@dataclass
class FigureResult:
    """The widgets of one figure. box: holds the others; hidden until there is a figure."""

    box: gr.Column
    preview: gr.Image
    download: gr.DownloadButton
    caption: gr.Textbox
    bibtex: gr.Textbox

    @property
    def outputs(self) -> list[Any]:
        return [self.box, self.preview, self.download, self.caption, self.bibtex]


def build(t: gr.I18n, elem_id: str) -> FigureResult:
    """Lay it out; the picture and the button are called ELEM_ID-preview and ELEM_ID-download."""
    with gr.Column(visible=False) as box:
        preview = gr.Image(
            format="png",
            interactive=False,
            show_label=False,
            buttons=["fullscreen"],
            elem_id=f"{elem_id}-preview",
            elem_classes="vs-figure",
        )
        download = gr.DownloadButton(t("figure_download"), size="sm", elem_id=f"{elem_id}-download")
        caption = gr.Textbox(
            label=t("figure_caption"), lines=3, max_lines=8, buttons=["copy"], interactive=False
        )
        bibtex = gr.Textbox(
            label=t("figure_bibtex"), lines=4, max_lines=10, buttons=["copy"], interactive=False
        )
    return FigureResult(box, preview, download, caption, bibtex)
