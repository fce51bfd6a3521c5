"""Which way is up: the orientation entry of a picture's EXIF data, whole or damaged."""

from __future__ import annotations

import logging
import struct

from PIL import Image

from explainers.sentence import Sentence

logger = logging.getLogger(__name__)

_ORIENTATION = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def upright_turn(image: Image.Image, notes: list[Sentence]) -> Image.Transpose | None:
    """How to turn ``image`` upright; damaged data is noted and the picture left as it is."""
    value = _stored_orientation(image)
    if value in range(1, 9):
        return _UPRIGHT.get(value)
    notes.append(
        Sentence(
            "photo_broken_exif",
            "The file's note on which way is up is damaged; the picture is used as stored.",
        )
    )
    return None


def _stored_orientation(image: Image.Image) -> int:
    """1..8 as EXIF counts them, 1 where nothing is said, 0 where the data is damaged."""
    data = image.info.get("exif")
    if isinstance(data, bytes) and not _is_whole(data):
        return 0
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # the reader raises nearly anything on damaged data
        logger.debug("EXIF was not read", exc_info=True)
        return 0
    return value if isinstance(value, int) else 0


def _is_whole(data: bytes) -> bool:
    """Whether the first directory of an EXIF block is there from beginning to end.

    Pillow reads what it finds and only warns, so half a directory would pass for one that says
    nothing about orientation.
    """
    while data.startswith(b"Exif\0\0"):
        data = data[6:]
    if not data:
        return True
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(data[:4])
    if order is None or len(data) < 8:
        return False
    (start,) = struct.unpack_from(f"{order}I", data, 4)
    if start + 2 > len(data):
        return False
    (entries,) = struct.unpack_from(f"{order}H", data, start)
    return bool(start + 2 + 12 * entries <= len(data))
