"""``/figure`` and ``/figure7``: figures for papers, as files."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app import api_fields as fields
from app import handlers
from app.api_asked import checked_settings, method_names, model_name
from app.api_call import aimed, calling, loaded, new_file, worked
from app.api_compare import compared
from app.api_fields import METHODS, MODEL, refusal
from app.api_offer import offer
from app.compare_events import panels_of
from app.comparison import CHOSEN, PHOTOS, Asked
from app.desks import Desk
from app.figure7_panel import WIDTH
from app.files import adopt
from app.scene import Display, Scene
from app.studio import Studio
from explainers import Photo, load_photo
from explainers.render.captions import bibtex, caption_text
from explainers.render.layout import SUFFIXES, Layout, check_suffix
from explainers.render.plate import heats_of, plate_bytes
from explainers.scalars import real_number
from explainers.sentence import Sentence
from explainers.views.figure7 import Figure7, figure7

MANY = 128
"""Photos of one figure 7: as many as the paper took."""

COLUMN = 89
"""Millimetres of a journal's column."""


def add(studio: Studio) -> None:
    """Add both."""

    def figure(
        request: gr.Request,
        photos: list[str] | None,
        methods: str | None,
        width: Any,
        suffix: Any,
        model: str | None,
        target: str | None,
        settings: Any = None,
    ) -> tuple[str, str, str]:
        """A figure for a paper: each photo and its maps, text as text, colour bars with units.

        Args:
            photos: the photos' files; four at most
            methods: names of methods, separated by commas; /methods lists them
            width: of the figure, in mm
            suffix: .pdf, .svg, .png or .tiff
            model: a model that is on this machine; /models lists them
            target: the class to explain, by index or label; empty for each photo's likeliest
            settings: settings of methods that are not the usual ones: method → setting → value

        Returns:
            figure: the file, which holds the recipe of its maps too
            caption: what stands below it
            bibtex: the papers of its methods
        """
        with calling(studio, request) as desk:
            layout = layout_of(width, suffix, COLUMN)
            chosen, name = method_names(methods), model_name(model)
            files = counted(photos, PHOTOS)
            vit = loaded(studio, desk, name)
            parameters = checked_settings(settings, vit)
            scenes = [handlers.take_photo(studio, desk, Scene(model=name), file) for file in files]
            scene = aimed(scenes[0], vit, target, None)
            paths = tuple(dict.fromkeys(str(one.photo) for one in scenes))
            wish = Asked(scene, paths, (name,), chosen, (CHOSEN,), parameters)
            made = compared(studio, desk, wish)
            for cell in made.cells:
                if cell.heat is None:
                    raise ValueError(cell.reason)
            panels = panels_of(made, Display(), with_photos=True)
            heats = heats_of(panels)
            contents = plate_bytes(panels, layout, suffix)
            file = handlers.write(desk, heats, f"figure{suffix}", contents)
            return file, caption_text(panels, layout), bibtex(heats)

    def make_figure7(
        request: gr.Request,
        model: str | None,
        photos: list[str] | None,
        suffix: Any,
        width: Any,
    ) -> tuple[str, str, str]:
        """The ViT paper's figure 7 of a model: filters, positions, how far its heads look.

        Args:
            model: a model that is on this machine; /models lists them
            photos: the photos' files that the heads' figures are the mean of; 128 at most
            suffix: .pdf, .svg, .png or .tiff
            width: of the figure, in mm

        Returns:
            figure: the file, with its numbers in it
            caption: what stands below it
            bibtex: the paper
        """
        from explainers.render import figure7_text  # matplotlib is slow to import
        from explainers.render.figure7 import check, figure7_bytes

        with calling(studio, request) as desk:
            layout = layout_of(width, suffix, WIDTH)
            check(layout, suffix)
            files = counted(photos, MANY)
            made = inside(studio, desk, model_name(model), files)
            file = new_file(desk, f"figure7{suffix}", figure7_bytes(made, layout, suffix))
            return file, figure7_text.caption(made), figure7_text.bibtex()

    offer(
        "figure",
        figure,
        [
            fields.photos(),
            fields.text("methods", METHODS),
            fields.amount("width", COLUMN),
            fields.choice("suffix", SUFFIXES),
            fields.text("model", MODEL),
            fields.text("target"),
            fields.settings(),
        ],
        _files(),
    )
    offer(
        "figure7",
        make_figure7,
        [
            fields.text("model", MODEL),
            fields.photos(),
            fields.choice("suffix", SUFFIXES),
            fields.amount("width", WIDTH),
        ],
        _files(),
    )


def _files() -> list[Any]:
    return [
        gr.File(label="figure"),
        gr.Textbox(label="caption"),
        gr.Textbox(label="bibtex"),
    ]


def layout_of(width: Any, suffix: Any, usual: float) -> Layout:
    """The layout and kind of a figure; ValueError where there is no such one."""
    check_suffix(suffix)
    number = usual if width is None else real_number(width)
    if number is None:
        raise refusal("width", width, "a number of mm")
    return Layout(width=number)


def counted(photos: list[str] | None, most: int) -> list[str]:
    """The photos' files; ValueError for none, or more than can be taken."""
    if not photos or len(photos) > most:
        raise ValueError(
            Sentence(
                "api_photos",
                "{count} photos came; give from 1 to {most} files as photos.",
                count=len(photos or []),
                most=most,
            )
        )
    return photos


def inside(studio: Studio, desk: Desk, model: str, files: list[str]) -> Figure7:
    """What figure 7 shows of a model, measured over the photos, each once."""
    vit = loaded(studio, desk, model)
    read = [load_photo(adopt(file, desk.folder)) for file in files]
    photos: list[Photo] = list({photo.sha256: photo for photo in read}.values())
    key = ("figure7", model, tuple(photo.sha256 for photo in photos))
    return worked(
        *(studio, desk, key, lambda report: figure7(vit, photos, progress=report)),
        lambda made: sum(photo.pixels.nbytes for photo in made.photos) + 1_000_000,
    )
