"""Opening picture files: which formats, how large, and what to say when it cannot be done.

Pillow's own ``Image.open`` warns and refuses by a process-wide setting (``MAX_IMAGE_PIXELS``).
Several threads read photos here at once, so that setting is left alone: the format plug-ins are
asked directly, and the size is judged from the header, before a single pixel is decoded.
"""

from __future__ import annotations

import io
import logging
import os
import re
import warnings
from collections.abc import Callable
from typing import Any, BinaryIO

from PIL import Image

from explainers.photo_icons import open_icon
from explainers.photo_kinds import is_heic, other_format
from explainers.sentence import Sentence

logger = logging.getLogger(__name__)

# What Pillow finds wrong beside the pixels is said by `Photo.notes`, or of no consequence. Set once
# and for all: to change the filters for one photo would change them for every other thread.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")

LARGEST = 200_000_000
"""A picture of more pixels than this is refused."""

FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "AVIF", "TIFF", "GIF", "BMP", "JPEG2000", "PPM", "ICO")
"""Pillow's formats that hold photos; none of them starts another program to be read."""


LONGEST_NAME = 255
"""Letters of a name that is kept; file systems take no more either."""


class PhotoError(ValueError):
    """A picture could not be used; the message is one plain sentence."""


def short_name(source: object) -> str:
    """The file name without its folder; "photo" where there is none."""
    text = source if isinstance(source, str) else ""
    last = re.split(r"[\\/]", text.rstrip("\\/"))[-1]
    shown = "".join(letter if letter.isprintable() else " " for letter in last)
    return shown.strip()[:LONGEST_NAME] or "photo"


def open_file(path: str | os.PathLike[str], name: str) -> BinaryIO:
    """Open a regular file for reading; PhotoError says what is there instead."""
    text = os.fspath(path)
    if re.match(r"[a-zA-Z]{2,}://", text):
        raise PhotoError(
            Sentence(
                "photo_address",
                "A file was expected, and {name} is a web address, which is never fetched; "
                "save the picture and give the file.",
                name=name,
            )
        )
    if os.path.isdir(text):
        raise PhotoError(
            Sentence(
                "photo_folder",
                "A picture file was expected, and {name} is a folder; name one file in it.",
                name=name,
            )
        )
    try:
        if os.path.exists(text) and not os.path.isfile(text):
            raise OSError("neither a file nor a folder")
        return open(text, "rb")
    except FileNotFoundError:
        raise PhotoError(
            Sentence(
                "photo_missing",
                "There is no file {name}; check the name and the folder it is in.",
                name=name,
            )
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise PhotoError(
            Sentence(
                "photo_closed",
                "The file {name} could not be opened ({reason}); "
                "check that it is an ordinary file which you may read.",
                name=name,
                reason=reason,
            )
        ) from None


def open_image(file: BinaryIO, name: str) -> Image.Image:
    """The picture in ``file``, header read and size admitted, pixels not yet decoded."""
    try:
        file = _rewound(file, name)
        head = file.read(1024)
    except (PhotoError, MemoryError):
        raise
    except Exception as error:  # closed, opened for writing, or anyone's own class
        raise PhotoError(
            Sentence(
                "photo_unreadable",
                "{name} cannot be read ({reason}); give a file that is open for reading bytes "
                '(mode "rb").',
                name=name,
                reason=str(error) or type(error).__name__,
            )
        ) from error
    if not head:
        raise PhotoError(
            Sentence(
                "photo_empty",
                "The file {name} is empty; copy or download it again.",
                name=name,
            )
        )
    try:
        image = _opened(file, head, name)
    except (PhotoError, MemoryError):
        raise
    except Exception as error:  # plug-ins raise nearly anything on damaged headers
        logger.debug("%s was not opened", name, exc_info=True)
        raise damaged(name) from error
    check_size(*image.size, name=name)
    return image


def check_size(width: int, height: int, name: str) -> None:
    """Refuse pictures without pixels and those of more than `LARGEST`."""
    if width < 1 or height < 1:
        raise PhotoError(
            Sentence(
                "photo_no_pixels",
                "{name} has no pixels ({width} × {height}); give a picture of at least 1 × 1.",
                name=name,
                width=width,
                height=height,
            )
        )
    if width * height > LARGEST:
        raise PhotoError(
            Sentence(
                "photo_too_large",
                "The picture {name} has {width} × {height} pixels, and at most {largest} million "
                "are opened; save it smaller first.",
                name=name,
                width=width,
                height=height,
                largest=LARGEST // 1_000_000,
            )
        )


def damaged(name: str) -> PhotoError:
    return PhotoError(
        Sentence(
            "photo_damaged",
            "The file {name} breaks off or is damaged; copy or download it again.",
            name=name,
        )
    )


def _rewound(file: BinaryIO, name: str) -> BinaryIO:
    """``file`` at its start; a stream that cannot go back is read into memory."""
    try:
        file.seek(0)
    except (AttributeError, OSError):
        data = file.read()
        if isinstance(data, bytes):
            return io.BytesIO(data)
    else:
        if isinstance(file.read(0), bytes):
            return file
    raise PhotoError(
        Sentence(
            "photo_text_stream",
            'A file opened for bytes was expected, and {name} gives text; open it with mode "rb".',
            name=name,
        )
    )


def _opened(file: BinaryIO, head: bytes, name: str) -> Image.Image:
    """The picture, by the plug-in that recognises its first bytes, or what the file is instead."""
    if is_heic(head):
        file.seek(0)
        return _heif_reader(name)(file, "")
    Image.init()
    failure: Exception | None = None
    for kind in FORMATS:
        factory, accept = Image.OPEN.get(kind, (None, None))
        # A text as the answer says that this Pillow was built without the format.
        if factory is None or accept is None or accept(head[:16]) is not True:
            continue
        file.seek(0)
        try:
            return open_icon(file) if kind == "ICO" else factory(file, "")
        except (SyntaxError, IndexError, TypeError) as error:
            failure = error
    raise failure or _not_a_photo(head, name)


def _heif_reader(name: str) -> Callable[..., Any]:
    """The HEIC plug-in's reader, imported when the first HEIC picture comes."""
    try:
        from pillow_heif import HeifImageFile
    except ImportError:
        raise PhotoError(
            Sentence(
                "photo_heic_plugin",
                "The file {name} is a HEIC picture, and the plug-in that opens HEIC is not "
                "installed; install pillow-heif, or save the picture as JPEG or PNG.",
                name=name,
            )
        ) from None
    return HeifImageFile


def _not_a_photo(head: bytes, name: str) -> PhotoError:
    """Name what the file is, as far as its first bytes tell."""
    kind = other_format(head)
    if kind is not None:
        return PhotoError(
            Sentence(
                "photo_other_format",
                "A photo was expected, and the file {name} is {format}, which is not opened "
                "here; save it as JPEG or PNG first.",
                name=name,
                format=kind,
            )
        )
    return PhotoError(
        Sentence(
            "photo_unknown",
            "A photo was expected, and the file {name} is of no kind that is opened here; "
            "give a JPEG, PNG, WebP, AVIF, HEIC, TIFF, GIF or BMP file.",
            name=name,
        )
    )
