"""Moving pictures of maps: a frame a map, the overlay's own colours, one scale for all."""

from __future__ import annotations

import io
import tempfile
from typing import Any

import numpy as np
import pytest
from PIL import Image

from explainers import explain, load_photo, wrap_model
from explainers.render import animation
from explainers.render.animation import animation_bytes, frames
from tests.tiny import tiny_photo_array, tiny_vit

TRACE = wrap_model(tiny_vit()).trace(load_photo(tiny_photo_array()))
HEATS: list[Any] = [explain("attention", TRACE, block=block) for block in range(3)]
LIMIT = max(float(heat.values.max()) for heat in HEATS)
CAPTIONS = ["block 0", "block 1", "block 2, and what else there is to say of it, in a long line"]


def read(contents: bytes) -> list[np.ndarray]:
    with Image.open(io.BytesIO(contents)) as film:
        assert film.info["loop"] == 0
        found = []
        for number in range(film.n_frames):  # type: ignore[attr-defined]
            film.seek(number)
            found.append(np.asarray(film.convert("RGB")).astype(int))
            assert film.info["duration"] == 700
        return found


def test_frames_are_overlays_on_one_scale_with_their_captions() -> None:
    pictures = frames(HEATS, CAPTIONS, width=240)
    assert len({picture.size for picture in pictures}) == 1
    for picture, heat in zip(pictures, HEATS, strict=True):
        expected = np.asarray(heat.overlay(limit=LIMIT, width=240))
        assert np.array_equal(np.asarray(picture)[: len(expected)], expected)
    under = [np.asarray(picture)[len(expected) :] for picture in pictures]
    assert (under[0] != under[1]).any()  # another number is written there
    strip = under[0].shape[0] // 4
    assert np.array_equal(under[0][-strip:], under[1][-strip:])  # and the bar is the same


def test_webp_keeps_every_colour_and_gif_the_scales() -> None:
    pictures = frames(HEATS, CAPTIONS, width=240, style="map")
    exact = [np.asarray(picture).astype(int) for picture in pictures]
    for kept, frame in zip(read(animation_bytes(pictures, "webp")), exact, strict=True):
        assert np.array_equal(kept, frame)
    gif = read(animation_bytes(pictures, "gif"))
    assert len(gif) == len(exact)
    rows = len(np.asarray(HEATS[0].overlay(width=240)))
    for kept, frame in zip(gif, exact, strict=True):
        assert np.abs(kept[:rows] - frame[:rows]).mean() < 3


def test_what_cannot_be_made_is_said() -> None:
    with pytest.raises(ValueError, match="one caption a map; 3 maps and 1 captions"):
        frames(HEATS, CAPTIONS[:1])
    with pytest.raises(ValueError, match="gif, webp"):
        animation_bytes(frames(HEATS, CAPTIONS), "avi")


def test_an_mp4_shows_each_frame_as_long() -> None:
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="imageio-ffmpeg is not installed")
    pictures = frames(HEATS, CAPTIONS, width=241, style="map")
    with tempfile.NamedTemporaryFile(suffix=".mp4") as file:
        file.write(animation_bytes(pictures, "mp4"))
        file.flush()
        reader = ffmpeg.read_frames(file.name)
        width, height = next(reader)["source_size"]
        shown = [
            np.frombuffer(frame, np.uint8).reshape(height, width, 3)[:, :241] for frame in reader
        ]
    assert (width, len(shown)) == (242, 7 * len(pictures))
    for number, picture in enumerate(pictures):
        exact = np.asarray(picture).astype(int)
        for frame in shown[7 * number : 7 * number + 7]:
            assert np.abs(frame[: len(exact)] - exact).mean() < 4


def test_an_mp4_is_offered_only_where_it_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(animation, "find_spec", lambda name: None)
    assert animation.kinds() == ("gif", "webp")
    with pytest.raises(ValueError, match="written as gif, webp; 'mp4' was given"):
        animation_bytes(frames(HEATS, CAPTIONS), "mp4")
