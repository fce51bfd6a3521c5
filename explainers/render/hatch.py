"""Hatching: how every picture marks the part of the photo that the model never saw."""

from __future__ import annotations

import numpy as np

DIM = 0.4
"""How much of the photo's brightness is left under the hatching."""

LINE = 190
"""Grey of the hatch lines: lighter than any dimmed photo (at most 0.4 · 255 = 102)."""


def hatch(picture: np.ndarray, photo: np.ndarray, unseen: np.ndarray) -> np.ndarray:
    """``picture`` with the unseen pixels replaced by the dimmed photo under diagonal lines.

    picture, photo: uint8 (H, W, 3); unseen: bool (H, W). Seen pixels are left as they are.
    """
    if not unseen.any():
        return picture
    height, width = unseen.shape
    period = max(6, round(min(height, width) / 30))
    # Only the rows and columns that hold unseen pixels are computed: photos can be large.
    rows, columns = np.nonzero(unseen.any(axis=1))[0], np.nonzero(unseen.any(axis=0))[0]
    box = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    here = unseen[box]
    y, x = np.ogrid[box]
    lines = (x + y) % period < max(1, period // 5)  # (h, w)
    dimmed = (np.arange(256) * DIM).astype(np.uint8)[photo[box]]
    dimmed[lines] = LINE
    result = picture.copy()
    result[box][here] = dimmed[here]
    return result
