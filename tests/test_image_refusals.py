"""What is no photo, or a damaged one, is refused in one sentence."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from explainers.image import PhotoError, load_photo
from tests.photo_files import FORMATS, encoded, refusal
from tests.tiny import tiny_photo_array


@pytest.mark.parametrize(
    ("data", "key", "word"),
    [
        (b"", "photo_empty", "empty"),
        (b"hello, I am a text", "photo_unknown", "JPEG"),
        (bytes(500), "photo_unknown", "JPEG"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"></svg>', "photo_other_format", "SVG"),
        (b'<?xml version="1.0"?>\n<!-- x -->\n<svg></svg>', "photo_other_format", "SVG"),
        (b"<!DOCTYPE html><html></html>", "photo_other_format", "HTML"),
        (b"%PDF-1.7\n", "photo_other_format", "PDF"),
        (b"PK\x03\x04rest", "photo_other_format", "ZIP"),
        (b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom", "photo_other_format", "MP4"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "photo_other_format", "JPEG XL"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "photo_other_format", "PostScript"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "photo_damaged", "damaged"),
        (b"\x89PNG\r\n\x1a\n", "photo_damaged", "damaged"),
        (b"GIF89a", "photo_damaged", "damaged"),
    ],
)
def test_files_that_are_no_photos(tmp_path: Path, data: bytes, key: str, word: str) -> None:
    path = tmp_path / "thing.jpg"
    path.write_bytes(data)
    sentence = refusal(path)
    assert sentence.key == key
    assert word in sentence
    assert "thing.jpg" in sentence
    assert str(tmp_path) not in sentence


@pytest.mark.parametrize("kind", FORMATS)
def test_photos_that_break_off(kind: str) -> None:
    data = encoded(tiny_photo_array(64, 64), kind)
    for share in (0.1, 0.3, 0.5, 0.8):
        assert refusal(data[: int(len(data) * share)]).key in ("photo_damaged", "photo_unknown")


@pytest.mark.parametrize("kind", FORMATS)
def test_damage_is_a_photo_error_or_a_photo(kind: str) -> None:
    random = np.random.default_rng(5)
    whole = np.frombuffer(encoded(tiny_photo_array(64, 64), kind), np.uint8)
    for _ in range(15):
        data = whole.copy()
        at = random.integers(len(data) // 2, len(data), 8)
        data[at] = random.integers(0, 256, 8)
        try:
            load_photo(data.tobytes())
        except PhotoError as error:
            assert error.args[0].key == "photo_damaged"  # noqa: PT017


def test_a_missing_heic_plug_in_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(tiny_photo_array(), "HEIF")
    assert load_photo(data).width == 60
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    sentence = refusal(data, "holiday.heic")
    assert sentence.key == "photo_heic_plugin"
    assert "holiday.heic" in sentence
    assert "HEIC" in sentence
    assert "pillow-heif" in sentence


def test_an_avif_without_its_decoder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(tiny_photo_array(), "AVIF")
    factory, _ = Image.OPEN["AVIF"]
    monkeypatch.setitem(Image.OPEN, "AVIF", (factory, lambda head: "not built in"))
    sentence = refusal(data)
    assert (sentence.key, sentence.values["format"]) == ("photo_other_format", "AVIF")


def test_an_avif_that_calls_itself_a_general_picture() -> None:
    data = bytearray(encoded(tiny_photo_array(), "AVIF"))
    data[8:12] = b"mif1"
    assert load_photo(data).width == 60


def test_paths_that_lead_to_no_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.jpg").key == "photo_missing"
    assert refusal("").key == "photo_missing"
    assert refusal(tmp_path).key == "photo_folder"
    assert refusal("https://example.org/cat.jpg").key == "photo_address"
    assert refusal("nul\0byte.jpg").key == "photo_closed"
    if Path("/dev/zero").exists():
        assert refusal("/dev/zero").key == "photo_closed"


@pytest.mark.parametrize("source", [None, 3, [1, 2], {"path": "x"}])
def test_things_that_are_no_source(source: object) -> None:
    sentence = refusal(source)
    assert sentence.key == "photo_source"
    assert type(source).__name__ in sentence


def test_a_file_opened_as_text(tmp_path: Path) -> None:
    assert refusal(io.StringIO("text")).key == "photo_text_stream"


class Broken(io.BytesIO):
    def read(self, *_: object) -> bytes:
        raise ZeroDivisionError


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    closed = io.BytesIO(b"x")
    closed.close()
    with (tmp_path / "new.png").open("wb") as writing:
        for source in (closed, writing, Broken(b"x")):
            assert refusal(source).key == "photo_unreadable"


def test_pillow_does_not_warn_on_the_error_stream(tmp_path: Path) -> None:
    cut = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x02\0\0\0\x04\0\0\xff\xff"
    path = tmp_path / "cut.jpg"
    path.write_bytes(encoded(tiny_photo_array(), "JPEG", exif=cut))
    code = f"from explainers.image import load_photo; load_photo({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_a_closed_picture_is_said_to_be_closed() -> None:
    image = Image.fromarray(tiny_photo_array())
    image.close()
    with pytest.raises(PhotoError, match="was closed before it was given; open it again"):
        load_photo(image)


def test_an_endless_name_is_cut() -> None:
    assert len(load_photo(tiny_photo_array(), "x" * 5000).name) == 255
