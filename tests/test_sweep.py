"""No third outcome: each method gives a finite map of the grid's shape, or said no beforehand.

The smallest of each family; `python -m benchmarks.sweep` goes through all of timm by hand.
"""

from __future__ import annotations

from typing import Any

import pytest
import timm
import torch
from torch import nn

from benchmarks import sweep
from benchmarks.sweep_models import build
from benchmarks.sweep_table import table
from explainers.registry import methods
from tests.grid_families import FAMILIES, grid_model, size_of
from tests.tiny import VARIANTS, seeded, shake, tiny_vit

SMALL: dict[str, tuple[str, dict[str, Any]]] = {
    "channels attend": ("xcit_nano_12_p16_224", {"depth": 2}),
    "talking heads": ("cait_xxs24_224", {"depth": 2}),
    "branches": ("crossvit_9_240", {}),
    "convolutions between": ("mobilevit_xxs", {}),
    "channels and convolutions": ("edgenext_xx_small", {}),
    "tokens of an odd grid": ("levit_128s", {}),
    "groups in cascade": ("efficientvit_m0", {}),
    "factorised": ("coat_lite_tiny", {}),
    "no map": ("efficientvim_m1", {}),
    "outlooks": ("volo_d1_224", {}),
    "pixels in patches": ("tnt_s_patch16_224", {"depth": 2}),
    "windows and a global query": ("gcvit_xxtiny", {}),
    "windows and channels": ("davit_tiny", {"depths": (1, 1, 1, 1)}),
    "nested": ("nest_tiny", {}),
    "convolutions first": ("visformer_tiny", {}),
    "tiny windows": ("tiny_vit_5m_224", {"depths": (1, 1, 1, 1)}),
    "a gate of places": ("convit_tiny", {"depth": 2}),
}


def module_of(family: str) -> nn.Module:
    if family in VARIANTS:
        return tiny_vit(**VARIANTS[family], dtype=torch.float32)
    if family in FAMILIES:
        return grid_model(family, dtype=torch.float32)
    name, settings = SMALL[family]
    with seeded(0):
        return shake(timm.create_model(name, num_classes=5, **settings), 0.05).eval()


@pytest.mark.parametrize("family", [*VARIANTS, *FAMILIES, *SMALL])
def test_every_method_gives_a_map_or_said_no_beforehand(family: str) -> None:
    row = sweep.check(module_of(family), size_of(family) if family in FAMILIES else None)
    assert not sweep.faults(row)
    assert set(methods()) <= set(row["cells"])
    assert row["cells"]["saliency"] == "map" or family == "headless"
    assert row["reasons"].keys() == {
        cell.removeprefix("no: ") for cell in row["cells"].values() if cell != "map"
    }


def test_an_architecture_is_built_with_two_blocks_where_its_depth_can_be_set() -> None:
    built = build("test_vit")
    assert (built.how, len(built.module.blocks)) == ("2 blocks", 2)  # type: ignore[union-attr,arg-type]
    assert build("levit_128s").how == "whole"
    assert build("eva_giant_patch14_224").how == "2 blocks"


def test_a_fault_stands_in_the_table() -> None:
    cells = dict.fromkeys(methods(), "map") | {"rollout": "no: why", "lime": "FAULT: ValueError"}
    row: dict[str, Any] = {"model": "m", "file": "f", "built": "whole", "parameters": 1}
    row |= {"cells": cells, "reasons": {"why": "so"}}
    text = table([row, {**row, "model": "n", "built": "not built here", "cells": {}}])
    assert "1 architectures were run" in text
    assert "- `m`, lime: ValueError" in text
    assert "1. so" in text
    assert sweep.faults(row) == ["lime: FAULT: ValueError"]
