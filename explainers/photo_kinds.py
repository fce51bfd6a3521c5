"""What a file is by its first bytes: HEIC, or a kind that is not opened here."""

from __future__ import annotations

import re

_KNOWN = (
    (r"\s*(<\?xml.*|<!--.*|<!DOCTYPE svg.*)?<svg", "SVG"),
    (r"\s*<(!doctype )?html", "HTML"),
    (r"%PDF", "PDF"),
    (r"%!PS|\xc5\xd0\xd3\xc6", "PostScript"),
    (r"8BPS", "PSD"),
    (r"\xff\x0a|\0\0\0\x0cJXL ", "JPEG XL"),
    (r"PK\x03\x04", "ZIP"),
    (r"....ftyp(isom|iso\d|mp4|avc1|qt  |M4V|3gp)", "MP4"),
    (r"RIFF....AVI ", "AVI"),
    (r"\x1aE\xdf\xa3", "WebM"),
    (r"....ftyp(avif|avis)", "AVIF"),
)
"""How files that are not opened begin, and the names of their formats."""


def is_heic(head: bytes) -> bool:
    """Whether the brands at the beginning are those of HEIC; AVIF shares some of them."""
    end = min(int.from_bytes(head[:4], "big"), len(head))
    brands = {head[at : at + 4] for at in range(8, end, 4)}
    shared = any(brand[:3] in (b"hei", b"hev", b"mif", b"msf") for brand in brands)
    return head[4:8] == b"ftyp" and shared and not brands & {b"avif", b"avis"}


def other_format(head: bytes) -> str | None:
    """The name of a format that is not opened here; None where the bytes are of none of them."""
    for pattern, kind in _KNOWN:
        if re.match(pattern.encode("latin-1"), head, re.DOTALL | re.IGNORECASE):
            return kind
    return None
