"""Above the tabs: the photo, the model and the class, chosen once for all tabs, and the links."""

from __future__ import annotations

from dataclasses import dataclass

import gradio as gr

from app import class_list, example_photos, link_panel, look_control
from app.fields import Menu
from app.files import PhotoInput
from app.link_panel import LinkPanel
from app.look_control import LookControl

TOP = 5
"""How many of the most likely classes are offered to click."""


@dataclass
class Chooser:
    """The widgets above the tabs."""

    photo: gr.Image
    photo_note: gr.HTML
    examples: gr.HTML
    model: gr.Dropdown
    model_note: gr.HTML
    download: gr.Button
    halt: gr.Button
    look: LookControl
    top: gr.HTML
    target: gr.Dropdown
    against: gr.Dropdown
    class_note: gr.HTML
    links: LinkPanel


def build(t: gr.I18n, models: list[tuple[str, str]], model: str) -> Chooser:
    """Lay the widgets out: photo, then examples and model, then classes and links."""
    with gr.Row(elem_classes="vs-choose", equal_height=False):
        with gr.Column(min_width=280):
            photo = PhotoInput(
                label=t("photo"),
                show_label=False,
                image_mode=None,
                sources=["upload", "webcam", "clipboard"],
                webcam_options=gr.WebcamOptions(mirror=False),
                buttons=["fullscreen"],
                height=290,
                placeholder=t("photo_placeholder"),  # type: ignore[arg-type]
                alt_text=t("photo"),  # type: ignore[arg-type]
                elem_id="vs-photo",
            )
            photo_note = gr.HTML(elem_classes="vs-notes")
        with gr.Column(min_width=280):
            gr.HTML(f"<p class='vs-caption'>{t('examples')}</p>")
            examples = example_photos.picker(t)
            model_box = gr.Dropdown(
                models,
                value=model,
                label=t("model"),
                info=t("model_info"),
                allow_custom_value=True,
                elem_id="vs-model",
            )
            download = gr.Button(t("download_model"), visible=False, variant="primary")
            halt = gr.Button(t("download_halt"), visible=False, variant="stop")
            model_note = gr.HTML(elem_classes="vs-facts", elem_id="vs-model-note")
            look = look_control.build(t)
        with gr.Column(min_width=280):
            top = class_list.build(t)
            with gr.Row(elem_classes="vs-tight"):
                target = Menu(
                    [], value=None, label=t("target"), info=t("target_info"), elem_id="vs-target"
                )
                against = Menu(
                    [], value=None, label=t("against"), info=t("against_info"), elem_id="vs-against"
                )
            class_note = gr.HTML(elem_classes="vs-notes", elem_id="vs-class-note")
            links = link_panel.build(t)
    return Chooser(
        photo=photo,
        photo_note=photo_note,
        examples=examples,
        model=model_box,
        model_note=model_note,
        download=download,
        halt=halt,
        look=look,
        top=top,
        target=target,
        against=against,
        class_note=class_note,
        links=links,
    )
