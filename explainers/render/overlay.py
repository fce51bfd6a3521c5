"""A heat map on its photo: the colours blended in, alone, or as level lines."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from PIL import Image

from explainers.heatmap import HeatMap
from explainers.image import Geometry, Photo
from explainers.photo_files import LARGEST
from explainers.render.colours import LEVELS, check_colours, colour_table
from explainers.render.cv import opencv
from explainers.render.hatch import hatch
from explainers.render.scale import Scale, channel, make_scale
from explainers.render.windows import mark_windows
from explainers.scalars import real_number, shown, whole_number
from explainers.sentence import Sentence

STYLES = ("overlay", "map", "contour")

CONTOURS = (0.5, 0.7, 0.9)
"""Level lines as parts of the limit; each has the colour of its level."""

LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
"""How much red, green and blue add to brightness (Rec. 709)."""


def overlay(
    heat: HeatMap,
    alpha: float = 0.55,
    colours: str | None = None,
    style: str = "overlay",
    limit: float | None = None,
    smooth: bool = False,
    width: int | None = None,
    scale: str = "zero",
) -> Image.Image:
    """The map on the original photo, as an RGB image of the photo's size or ``width`` wide.

    style "overlay": the colours cover the photo with opacity ``alpha`` (0 leaves the photo,
    1 hides it); "map": the colours alone; "contour": the photo with lines around the places
    above 50, 70 and 90 % of the limit (in a signed map also below the negative ones).
    Cells are drawn as cells unless ``smooth``. ``limit`` and ``scale`` as in `make_scale`.
    What the model did not see is dimmed and hatched in every style; of separate looks each
    window is outlined, with its own answer in its corner. ValueError names the
    admitted values of an option that is out of range.
    """
    if style not in STYLES:
        raise ValueError(
            Sentence(
                "style_unknown",
                "The style must be one of {known}; {given!r} was given.",
                known=", ".join(STYLES),
                given=style,
            )
        )
    opaque = real_number(alpha)
    if opaque is None or not 0 <= opaque <= 1:
        raise ValueError(
            Sentence(
                "alpha_out_of_range",
                "The opacity must be between 0 and 1; {given} was given.",
                given=shown(alpha),
            )
        )
    photo, geometry = _sized(heat.photo, heat.geometry, width)
    values = geometry.spread(heat.values, smooth=smooth)
    unseen = np.isnan(values if values.ndim == 2 else values[..., 0])
    if style == "contour":
        picture = _contours(photo, values, heat, colours, make_scale(heat, limit, scale))
    else:
        colour = _coloured(values, heat, colours, limit, scale)
        opacity = 1.0 if style == "map" else opaque
        picture = opencv().addWeighted(photo, 1 - opacity, colour, opacity, 0)
    return mark_windows(Image.fromarray(hatch(picture, photo, unseen)), heat)


def widest(photo: Photo) -> int:
    """The largest width that a picture of ``photo`` is drawn at: as many pixels as are opened."""
    return max(photo.width, math.isqrt(LARGEST * photo.width // photo.height))


def _sized(photo: Photo, geometry: Geometry, width: int | None) -> tuple[np.ndarray, Geometry]:
    """The photo's pixels at ``width``, and the geometry that maps to those pixels."""
    if width is None:
        return photo.pixels, geometry
    wanted = whole_number(width)
    if wanted is None or not 1 <= wanted <= widest(photo):
        raise ValueError(
            Sentence(
                "width_out_of_range",
                "The width must be a whole number of pixels from 1 to {widest}; {given} was given.",
                widest=widest(photo),
                given=shown(width),
            )
        )
    if wanted == photo.width:
        return photo.pixels, geometry
    cv2 = opencv()
    height = max(1, round(photo.height * wanted / photo.width))
    way = cv2.INTER_AREA if wanted < photo.width else cv2.INTER_CUBIC
    pixels = cv2.resize(photo.pixels, (wanted, height), interpolation=way)
    return pixels, replace(geometry, photo_size=(height, wanted))


def _coloured(
    values: np.ndarray, heat: HeatMap, colours: str | None, limit: float | None, scale: str
) -> np.ndarray:
    """Each pixel's colour, uint8 (H, W, 3); pixels without a value get any colour."""
    if heat.kind != "rgb":
        table = colour_table(check_colours(colours, heat.signed))
        levels = make_scale(heat, limit, scale).levels(values)
        return np.take(table, levels, axis=0)
    # Three numbers a cell are red, green and blue; each has its own extent unless shared.
    channels = [
        make_scale(channel(heat, index), limit, scale).levels(values[..., index])
        for index in range(3)
    ]
    return np.linspace(0, 255, LEVELS).astype(np.uint8)[np.stack(channels, axis=-1)]


def _contours(
    photo: np.ndarray, values: np.ndarray, heat: HeatMap, colours: str | None, scale: Scale
) -> np.ndarray:
    """The photo with level lines, each cased in black or white to be seen on any ground."""
    if heat.kind == "rgb":
        raise ValueError(
            Sentence(
                "contour_needs_one_value",
                "{title} has three values a cell, so it has no level lines; "
                "choose the style overlay or map.",
                title=heat.title,
            )
        )
    cv2 = opencv()
    table = colour_table(check_colours(colours, heat.signed))
    picture = np.ascontiguousarray(photo).copy()
    if heat.flat:
        return picture
    thin = max(1, round(min(photo.shape[:2]) / 250))
    for sign in (1, -1) if heat.signed else (1,):
        for part in CONTOURS:
            low = 0.0 if heat.signed else scale.low
            level = sign * (low + part * (scale.high - low))
            mask = (values >= level) if sign > 0 else (values <= level)  # NaN is neither
            lines, _ = cv2.findContours(
                mask.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE
            )
            colour = table[scale.levels(np.array([level]))[0]].tolist()
            casing = (0, 0, 0) if LUMINANCE @ colour > 127 else (255, 255, 255)
            cv2.polylines(picture, lines, True, casing, 4 * thin, cv2.LINE_AA)
            cv2.polylines(picture, lines, True, colour, 2 * thin, cv2.LINE_AA)
    return picture
