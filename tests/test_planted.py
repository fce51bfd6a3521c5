"""Planted evidence: a model whose deciding row looks at one patch must be shown to look there.

Tokens are rows of a Hadamard matrix: orthogonal, of mean 0 and variance 1, so that a LayerNorm
leaves them as they are and q and k can be written down. Every row that does not decide looks at
a decoy instead.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor, nn

from explainers import explain, wrap_model
from explainers.image import Photo
from tests.tiny import tiny_vit

SIDE = 2  # pixels of a patch
WIDTH = 16
GRIDS = ((14, 14), (14, 28), (28, 14))
KINDS = (
    *(("token", prefix) for prefix in (1, 2, 5)),
    ("distilled", 2),
    *(("avg", prefix) for prefix in (0, 1, 2, 5)),
    *(("map", prefix) for prefix in (0, 1, 2, 5)),
)
DECIDER, TARGET, DECOY, PATCH, OTHER = torch.from_numpy(
    scipy.linalg.hadamard(WIDTH)[1:6]
).double()  # (5, WIDTH)
SHARP = 12.0  # the planted score: e^12 times the weight of any other token


def planted(pooling: str, prefix: int, grid: tuple[int, int], patch: int, decoy: int) -> nn.Module:
    """Two blocks: the first looks nowhere in particular, the second at the planted patches."""
    arguments = {
        "depth": 2,
        "num_heads": 1,
        "embed_dim": WIDTH,
        "patch_size": SIDE,
        "size": (grid[0] * SIDE, grid[1] * SIDE),
        "class_token": prefix > 0,
    }
    if pooling == "distilled":
        del arguments["class_token"]
    else:
        arguments |= {"global_pool": pooling, "reg_tokens": max(prefix - 1, 0), "fc_norm": False}
    module = tiny_vit(distilled=pooling == "distilled", **arguments)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        for name, layer in module.named_modules():
            if isinstance(layer, nn.LayerNorm):
                layer.weight.fill_(1)
                assert layer.eps < 1e-4, name
        tokens = PATCH.repeat(prefix + grid[0] * grid[1], 1)  # (N, WIDTH)
        tokens[:prefix] = OTHER
        deciding = {"token": 1, "distilled": 2}.get(pooling, 0)
        tokens[:deciding] = DECIDER
        tokens[prefix + patch], tokens[prefix + decoy] = TARGET, DECOY
        module.pos_embed.copy_(tokens)
        last = module.blocks[1].attn
        patches = (PATCH, TARGET, DECOY)
        looking = {"token": (DECIDER,), "distilled": (DECIDER,), "avg": patches, "map": ()}[pooling]
        away = {"token": (*patches, OTHER), "distilled": patches, "avg": (OTHER,), "map": ()}
        last.qkv.weight[:WIDTH] = sends(
            *((source, TARGET) for source in looking), *((s, DECOY) for s in away[pooling])
        )
        last.qkv.weight[WIDTH : 2 * WIDTH] = sends((TARGET, TARGET), (DECOY, DECOY))
        last.qkv.weight[2 * WIDTH :] = torch.eye(WIDTH)
        last.proj.weight.copy_(torch.eye(WIDTH))
        if pooling == "map":
            pool = module.attn_pool
            pool.latent.copy_(TARGET)
            pool.q.weight.copy_(sends((TARGET, TARGET)))
            pool.kv.weight[:WIDTH] = sends((TARGET, TARGET))
            pool.kv.weight[WIDTH:] = torch.eye(WIDTH)
            pool.proj.weight.copy_(torch.eye(WIDTH))
        for head in (module.head, getattr(module, "head_dist", module.head)):
            head.weight[0] = TARGET
    return module


def sends(*pairs: tuple[Tensor, Tensor]) -> Tensor:
    """The matrix that makes √score · target of each source, for a score of SHARP after scaling."""
    size = (SHARP * WIDTH**0.5 / WIDTH) ** 0.5
    return sum(
        (size * torch.outer(target, source) / WIDTH for source, target in pairs),
        torch.zeros(WIDTH, WIDTH, dtype=torch.float64),
    )


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: f"{grid[0]}x{grid[1]}")
@pytest.mark.parametrize(("pooling", "prefix"), KINDS)
def test_the_peak_is_the_planted_patch(pooling: str, prefix: int, grid: tuple[int, int]) -> None:
    rows, columns = grid
    for row, column in ((0, 0), (3, columns - 1), (rows - 1, 5), (rows - 2, columns // 2)):
        patch = row * columns + column
        decoy = (patch + columns + 3) % (rows * columns)
        vit = wrap_model(planted(pooling, prefix, grid, patch, decoy))
        noise = np.random.default_rng(patch).integers(0, 256, (40, 60, 3), dtype=np.uint8)
        trace = vit.trace(Photo(noise, "noise", ()))
        assert trace.grid == grid
        assert trace.prefix == prefix
        names = ["rollout", "relevance", "gradient_x_attention", "value_norm", "daam"]
        if pooling == "map":  # its deciding row is the pool's, not a block's
            names = ["rollout", "relevance"]
        else:
            names.append("attention")
        for name in names:
            values = explain(name, trace, target=0).values
            place = np.unravel_index(values.argmax(), grid)
            assert place == (row, column), name
            assert values.max() > np.partition(values.ravel(), -2)[-2], name
