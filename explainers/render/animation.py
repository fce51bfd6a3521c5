"""A run of maps as a moving picture: one scale for all, each frame saying which map it is."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from PIL import Image, ImageDraw

from explainers.heatmap import HeatMap
from explainers.render.fonts import text_font
from explainers.render.legend import INK, PAPER, colour_bar
from explainers.render.overlay import overlay
from explainers.render.scale import shared_limit
from explainers.render.sheet import wrapped
from explainers.sentence import Sentence

Kind = Literal["gif", "webp", "mp4"]
"""WebP keeps every colour; GIF, which all programs show, has 256 for the whole run; MP4, for
slides, needs the package imageio-ffmpeg."""

LETTER = 15
"""Height of a caption's letters in pixels."""

SECONDS = 0.7
"""How long each frame is shown."""

RATE = 10
"""Pictures a second of an MP4; players stumble over fewer, so each frame is in it several times."""


def kinds() -> tuple[Kind, ...]:
    """The kinds of file that can be written on this machine."""
    return ("gif", "webp", "mp4") if find_spec("imageio_ffmpeg") else ("gif", "webp")


def frames(
    heats: Sequence[HeatMap],
    captions: Sequence[str],
    width: int = 560,
    limit: float | None = None,
    **options: Any,
) -> list[Image.Image]:
    """One RGB picture a map, all of one size: the overlay, then its caption and the colour bar.

    limit: the value of the last colour in all frames; None takes the largest |v| of all maps.
    width: of the picture in pixels; options as in `overlay`. ValueError without maps, or
    where maps and captions are not as many.
    """
    if not heats or len(heats) != len(captions):
        raise ValueError(
            Sentence(
                "animation_frames",
                "A moving picture needs one caption a map; {maps} maps and {captions} captions "
                "were given.",
                maps=len(heats),
                captions=len(captions),
            )
        )
    limit = shared_limit(heats) if limit is None else limit
    fonts, line = [text_font(LETTER, caption) for caption in captions], round(LETTER * 1.4)
    texts = [
        wrapped(caption, font, width - 2 * LETTER)
        for caption, font in zip(captions, fonts, strict=True)
    ]
    room = line * max(len(lines) for lines in texts) + LETTER
    found = []
    for heat, lines, font in zip(heats, texts, fonts, strict=True):
        picture = overlay(heat, limit=limit, width=width, **options)
        bar = colour_bar(heat, options.get("colours"), limit, width=width)
        frame = Image.new("RGB", (width, picture.height + room + bar.height), PAPER)
        frame.paste(picture, (0, 0))
        pen, text = ImageDraw.Draw(frame), "\n".join(lines)
        place = width / 2, picture.height + room / 2
        pen.multiline_text(place, text, INK, font, anchor="mm", align="center")
        frame.paste(bar, (0, picture.height + room))
        found.append(frame)
    return found


def animation_bytes(
    pictures: Sequence[Image.Image], kind: Kind = "gif", seconds: float = SECONDS
) -> bytes:
    """The frames as one file that repeats for ever (an MP4 does not); each is shown ``seconds``.

    ValueError for another kind of file than `kinds`.
    """
    if kind not in kinds():
        raise ValueError(
            Sentence(
                "animation_kind",
                "Moving pictures are written as {known}; {given!r} was given.",
                known=", ".join(kinds()),
                given=kind,
            )
        )
    if kind == "mp4":
        return _mp4(pictures, seconds)
    first, *others = pictures if kind == "webp" else _one_palette(pictures)
    options: dict[str, Any] = {"duration": round(1000 * seconds), "loop": 0}
    options |= {"lossless": True, "quality": 60, "method": 2} if kind == "webp" else {}
    if kind == "gif":
        options |= {"optimize": False, "disposal": 1}
    buffer = BytesIO()
    first.save(buffer, kind.upper(), save_all=True, append_images=others, **options)
    return buffer.getvalue()


def _one_palette(pictures: Sequence[Image.Image]) -> list[Image.Image]:
    """The pictures in the same 256 colours, so that what does not change does not flicker."""
    width, height = pictures[0].size
    sheet = Image.new("RGB", (width, height * len(pictures)))
    for number, picture in enumerate(pictures):
        sheet.paste(picture, (0, number * height))
    palette = sheet.quantize(256, Image.Quantize.MAXCOVERAGE)
    return [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]


def _mp4(pictures: Sequence[Image.Image], seconds: float) -> bytes:
    """H.264, which codes colours in squares of four pixels: an odd side gets one more of paper."""
    import imageio_ffmpeg

    width, height = (side + side % 2 for side in pictures[0].size)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.mp4"
        writer = imageio_ffmpeg.write_frames(
            str(path), (width, height), fps=RATE, quality=8, macro_block_size=2
        )
        writer.send(None)
        for picture in pictures:
            sheet = Image.new("RGB", (width, height), PAPER)
            sheet.paste(picture)
            for _ in range(max(1, round(RATE * seconds))):
                writer.send(sheet.tobytes())
        writer.close()
        return path.read_bytes()
