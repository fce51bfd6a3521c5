"""A visitor's files: photos they gave and pictures made of them, in a folder of their own."""

from __future__ import annotations

import hashlib
import secrets
import shutil
import threading
import time
import zipfile
from pathlib import Path

import gradio as gr
from gradio.utils import get_upload_folder
from PIL import Image, UnidentifiedImageError

from app.texts import say
from explainers import PhotoError
from explainers.sentence import Sentence

BROWSER_FORMATS = {"JPEG", "PNG", "WEBP", "GIF", "AVIF", "BMP", "ICO"}
"""What every browser can show; anything else is shown as a PNG made from it."""

SHARED = 60.0
"""Seconds an upload is kept for somebody else who uploaded the same file at the same time."""


def new_folder() -> Path:
    """A new folder inside Gradio's own cache, so that it is served, aged and cleared there."""
    folder = Path(get_upload_folder()) / secrets.token_urlsafe(24)
    folder.mkdir(parents=True)
    return folder


def adopt(path: str | Path, folder: Path) -> Path:
    """Copy a file into the visitor's folder; an upload itself is deleted soon after.

    Gradio keeps uploads under the hash of their contents, so the file may be another visitor's
    upload too, who has yet to take it. PhotoError when it is not there.
    """
    source = Path(path)
    place = folder / hashlib.sha256(str(source).encode()).hexdigest()[:12]
    place.mkdir(parents=True, exist_ok=True)
    target = place / source.name
    if source != target:
        try:
            shutil.copyfile(source, target)
        except OSError:  # or it is a folder
            raise PhotoError(
                Sentence(
                    "upload_gone",
                    "The uploaded file {name} is no longer here; upload it again.",
                    name=source.name,
                )
            ) from None
        if source.is_relative_to(get_upload_folder()):
            timer = threading.Timer(SHARED, delete_upload, [source])
            timer.daemon = True
            timer.start()
    return target


def delete_upload(source: Path) -> None:
    """Delete an upload, unless somebody uploaded the same again since it was taken."""
    try:
        if time.time() - source.stat().st_ctime >= SHARED:
            source.unlink()
    except FileNotFoundError:
        return


def browser_can_show(path: Path) -> bool:
    """Whether a browser can show the file itself (HEIC and TIFF it cannot)."""
    try:
        with Image.open(path) as image:
            return image.format in BROWSER_FORMATS
    except (UnidentifiedImageError, OSError, ValueError):
        return False


def unpacked_size(path: Path) -> int:
    """Bytes of a file; of a zip archive, as NPZ files are, those that it unpacks to."""
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            return max(size, sum(member.file_size for member in archive.infolist()))
    except (zipfile.BadZipFile, OSError, ValueError):
        return size


def write_png(picture: Image.Image, folder: Path, name: str) -> str:
    """Save a picture losslessly under a name of its contents; the same picture, the same path."""
    digest = hashlib.sha256(picture.tobytes()).hexdigest()[:16]
    place = folder / digest
    path = place / f"{name}.png"
    if not path.exists():
        place.mkdir(parents=True, exist_ok=True)
        picture.save(path, compress_level=1)
    return str(path)


class PhotoFiles(gr.File):
    """gr.File that takes no web addresses."""

    is_template = True

    async def async_move_resource_to_block_cache(self, path: str | Path | None) -> str | None:
        _refuse_address(path)
        return await super().async_move_resource_to_block_cache(path)


class RecipeFile(gr.UploadButton):
    """gr.UploadButton that takes no web addresses."""

    is_template = True

    async def async_move_resource_to_block_cache(self, path: str | Path | None) -> str | None:
        _refuse_address(path)
        return await super().async_move_resource_to_block_cache(path)


def _refuse_address(path: str | Path | None) -> None:
    if path is not None and str(path).lower().startswith(("http:", "https:")):
        raise gr.Error(say("en", "no_addresses"), print_exception=False)


class PhotoInput(gr.Image):
    """gr.Image that hands on the uploaded file itself, unread: `load_photo` does the rest.

    Gradio's own reading loses 16-bit greys, EXIF rotation and HEIC. Web addresses are refused.
    """

    is_template = True

    def preprocess(self, payload: gr.data_classes.ImageData | None) -> str | None:
        return None if payload is None else payload.path

    async def async_move_resource_to_block_cache(self, path: str | Path | None) -> str | None:
        _refuse_address(path)
        return await super().async_move_resource_to_block_cache(path)
