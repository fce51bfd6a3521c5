"""Icons (.ico): which picture inside one is the photo.

Pillow decodes an icon while it opens it, before its size can be judged, and believes the size in
the icon's table, which holds no more than 256: the picture itself may say anything.
"""

from __future__ import annotations

import io
import struct
from typing import BinaryIO

from PIL import Image
from PIL.IcoImagePlugin import IcoFile, IcoImageFile

_PNG = b"\x89PNG\r\n\x1a\n"


def open_icon(file: BinaryIO) -> Image.Image:
    """The largest picture of an icon; one in PNG is opened as such, its pixels not yet decoded.

    Raises ValueError where a bitmap inside is of another size than the table says.
    """
    entry = IcoFile(file).entry[0]
    file.seek(entry.offset)
    start = file.read(16)
    if start.startswith(_PNG):
        file.seek(entry.offset)
        picture: Image.Image = Image.OPEN["PNG"][0](io.BytesIO(file.read(entry.size)), "")
        return picture
    width, height = struct.unpack_from("<ii", start, 4)
    if (width, height) != (entry.width, 2 * entry.height):  # colours above a mask
        raise ValueError(f"a bitmap of {width} × {height} in an icon of {entry.dim}")
    file.seek(0)
    return IcoImageFile(file)
