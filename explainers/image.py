"""Photo: upright RGB pixels. Geometry: where on the photo each cell of the model's grid lies."""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from PIL import Image

from explainers.photo_files import PhotoError, open_file, open_image, short_name
from explainers.photo_pixels import pixels_of_array, pixels_of_image
from explainers.sentence import Sentence

__all__ = ["Geometry", "Photo", "PhotoError", "load_photo"]


@dataclass(frozen=True, eq=False)
class Photo:
    """A photo as people see it: upright, RGB, without its file's other data.

    pixels: (H, W, 3) uint8, read-only. name: the file's name without its folder.
    notes: what was changed when it was read, a sentence each.
    """

    pixels: np.ndarray
    name: str = "photo"
    notes: tuple[Sentence, ...] = ()

    def __post_init__(self) -> None:
        pixels = self.pixels
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
            raise PhotoError(
                Sentence(
                    "photo_pixels",
                    "Pixels of shape (height, width, 3) in uint8 were expected, and {shape} in "
                    "{dtype} came; use load_photo, which converts.",
                    shape=pixels.shape,
                    dtype=pixels.dtype,
                )
            )
        locked = np.ascontiguousarray(pixels).view()
        locked.setflags(write=False)
        object.__setattr__(self, "pixels", locked)

    @property
    def height(self) -> int:
        return int(self.pixels.shape[0])

    @property
    def width(self) -> int:
        return int(self.pixels.shape[1])

    @cached_property
    def sha256(self) -> str:
        """Hex digest over the size and the upright RGB bytes: the same picture, the same hash."""
        digest = hashlib.sha256(f"{self.height} {self.width} ".encode())
        digest.update(self.pixels.data)
        return digest.hexdigest()

    def to_pil(self) -> Image.Image:
        return Image.fromarray(self.pixels)


def load_photo(source: object, name: str | None = None) -> Photo:
    """Read a photo from a path, bytes, a binary file, a Pillow image, an array or a Photo.

    Turned upright by its EXIF entry, 8-bit RGB, transparency on white, of animations the first
    picture; `Photo.notes` says what was done. Above 25 million pixels it is made smaller, above
    200 million refused from the header. PhotoError: one plain sentence on what is wrong.
    """
    if isinstance(source, Photo):
        return source if name is None else replace(source, name=short_name(name))
    shown = short_name(name) if name is not None else _name_of(source)
    if isinstance(source, (str, os.PathLike)):
        with open_file(cast(Any, source), shown) as file:
            pixels, notes = pixels_of_image(open_image(file, shown), shown, ours=True)
    elif isinstance(source, (bytes, bytearray, memoryview)):
        image = open_image(io.BytesIO(source), shown)
        pixels, notes = pixels_of_image(image, shown, ours=True)
    elif isinstance(source, Image.Image):
        pixels, notes = pixels_of_image(source, shown)
    elif isinstance(source, np.ndarray):
        pixels, notes = pixels_of_array(source, shown)
    elif hasattr(source, "read"):
        pixels, notes = pixels_of_image(open_image(cast(Any, source), shown), shown, ours=True)
    else:
        raise PhotoError(
            Sentence(
                "photo_source",
                "A path, bytes, a binary file, a Pillow image or a NumPy array was expected, "
                "and {kind} came; convert it to one of these.",
                kind=type(source).__name__,
            )
        )
    return Photo(pixels, shown, notes)


def _name_of(source: object) -> str:
    if isinstance(source, (str, os.PathLike)):
        return short_name(os.fsdecode(cast(Any, source)))
    if isinstance(source, Image.Image):
        return short_name(getattr(source, "filename", ""))
    return short_name(getattr(source, "name", ""))


@dataclass(frozen=True)
class Geometry:
    """The exact way from the photo to the model's input and back.

    The whole photo is resized, then a window of it is what the model gets; all sizes are
    (height, width). Coordinates are continuous, (x, y), with pixel edges at whole numbers: pixel
    j spans j..j+1 and has its centre at j + ½.

    photo_size: of the original photo. resized_size: of the whole photo after the model's resize.
    offset: (top, left) of the window in the resized photo, negative where a border was added.
    input_size: of the window. patch: input pixels a cell.
    """

    photo_size: tuple[int, int]
    resized_size: tuple[int, int]
    offset: tuple[int, int]
    input_size: tuple[int, int]
    patch: tuple[int, int]

    @property
    def grid(self) -> tuple[int, int]:
        """(rows, columns) of whole cells; input pixels beyond them are not seen."""
        return self.input_size[0] // self.patch[0], self.input_size[1] // self.patch[1]

    def input_to_photo(self, x: Any, y: Any) -> tuple[Any, Any]:
        """The point of the photo (numbers or arrays) shown at (x, y) of the model's input."""
        (height, width), (h, w), (top, left) = self.photo_size, self.resized_size, self.offset
        return (x + left) * width / w, (y + top) * height / h

    def photo_to_input(self, x: Any, y: Any) -> tuple[Any, Any]:
        """The point of the model's input (numbers or arrays) where (x, y) of the photo is shown."""
        (height, width), (h, w), (top, left) = self.photo_size, self.resized_size, self.offset
        return x * w / width - left, y * h / height - top

    def cell_box(self, row: int, column: int) -> tuple[float, float, float, float]:
        """(left, top, right, bottom) of a cell in photo pixels; borders lie outside the photo."""
        rows, columns = self.grid
        if not (0 <= row < rows and 0 <= column < columns):
            raise ValueError(
                Sentence(
                    "unknown_cell",
                    "Cell ({row}, {column}) is outside the grid; rows go to {rows} and columns "
                    "to {columns}, counted from 0.",
                    row=row,
                    column=column,
                    rows=rows - 1,
                    columns=columns - 1,
                )
            )
        height, width = self.patch
        left, top = self.input_to_photo(column * width, row * height)
        right, bottom = self.input_to_photo((column + 1) * width, (row + 1) * height)
        return left, top, right, bottom

    def cell_at(self, x: float, y: float) -> tuple[int, int] | None:
        """(row, column) of the cell that shows (x, y) of the photo; None where nothing is seen."""
        if not (0 <= x < self.photo_size[1] and 0 <= y < self.photo_size[0]):
            return None
        u, v = self.photo_to_input(x, y)
        row, column = int(v // self.patch[0]), int(u // self.patch[1])
        inside = 0 <= row < self.grid[0] and 0 <= column < self.grid[1]
        return (row, column) if inside else None

    @property
    def seen_box(self) -> tuple[float, float, float, float]:
        """(left, top, right, bottom) of what the model saw, in photo pixels, within the photo."""
        height, width = self.photo_size
        rows, columns = self.grid
        left, top = self.input_to_photo(0, 0)
        right, bottom = self.input_to_photo(columns * self.patch[1], rows * self.patch[0])
        return max(left, 0.0), max(top, 0.0), min(right, float(width)), min(bottom, float(height))

    @property
    def seen_share(self) -> float:
        """The part of the photo's area that the model saw, 0..1."""
        left, top, right, bottom = self.seen_box
        return (right - left) * (bottom - top) / (self.photo_size[0] * self.photo_size[1])

    def spread(self, values: np.ndarray, smooth: bool = False) -> np.ndarray:
        """Values laid over the photo: (H, W), or (H, W, 3) for colours; NaN where nothing is seen.

        values: one a cell (rows, columns[, 3]) or one a pixel of the model's input (h, w[, 3]).
        A photo pixel takes the value of the cell its centre lies in; smooth: bilinear between the
        centres of cells, constant beyond the outermost.
        """
        values = np.asarray(values)
        if values.dtype.kind != "f" or values.dtype.itemsize < 4:
            values = values.astype(np.float32)
        if values.ndim not in (2, 3) or values.shape[:2] not in (self.grid, self.input_size):
            raise ValueError(
                Sentence(
                    "map_shape",
                    "A map of the grid {grid} or of the model's input {input} was expected, "
                    "and one of shape {shape} came; use the geometry of its own trace.",
                    grid=self.grid,
                    input=self.input_size,
                    shape=values.shape,
                )
            )
        cell = self.patch if values.shape[:2] == self.grid else (1, 1)
        top, rows = self._cells(0, cell[0])
        left, columns = self._cells(1, cell[1])
        out = np.full((*self.photo_size, *values.shape[2:]), np.nan, values.dtype)
        part = out[top : top + len(rows), left : left + len(columns)]
        if smooth:
            # Columns first: the small side is done once a row of cells, not once a row of pixels.
            across = _between(values.swapaxes(0, 1), columns).swapaxes(0, 1)
            part[...] = _between(across, rows)
        else:
            across = values[:, columns.astype(np.intp)]
            part[...] = across[rows.astype(np.intp)]
        return out

    def _cells(self, axis: int, cell: int) -> tuple[int, np.ndarray]:
        """The first seen photo pixel along an axis; for it and each after, the position in cells.

        A pixel is seen when its centre is. Where photo pixels are so large that no centre lies in
        the window, those that reach into it are taken, at the nearest seen position.
        """
        size, resized, offset = self.photo_size[axis], self.resized_size[axis], self.offset[axis]
        end = self.grid[axis] * self.patch[axis]
        at = (np.arange(size) + 0.5) * resized / size - offset
        seen = np.flatnonzero((at >= 0) & (at < end))
        if not len(seen):
            half = 0.5 * resized / size
            seen = np.flatnonzero((at + half > 0) & (at - half < end))
        return int(seen[0]), np.clip(at[seen], 0.0, end - 0.5) / cell


def _between(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Values (n, …) read linearly at positions (m,) in cells along the first axis: (m, …)."""
    centre = np.clip(at - 0.5, 0.0, len(values) - 1.0)
    first = np.minimum(centre.astype(np.intp), max(len(values) - 2, 0))
    share = (centre - first).astype(values.dtype).reshape(-1, *[1] * (values.ndim - 1))
    following = values[np.minimum(first + 1, len(values) - 1)]
    return values[first] * (1 - share) + following * share
