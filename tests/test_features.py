"""What the model sees, without a class: features against the pass written out; cost, settings."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from explainers import ModelError, load_photo, methods, wrap_model
from explainers.tensors import FINAL
from tests.feature_runs import PHOTO, close, run, traced
from tests.slow_vit import norm, slow_forward
from tests.tiny import VARIANTS, tiny_encoder, tiny_photo_array, tiny_vit

OTHER = load_photo(tiny_photo_array(seed=9))
NAMES = ("feature_pca", "token_norm", "patch_similarity")


# -- features of a trace ---------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_features_equal_the_pass_written_out(variant: str) -> None:
    trace = traced(variant)
    with torch.no_grad():
        slow = slow_forward(trace.model.module, trace.pixels[0])
    for block in range(trace.depth):
        close(trace.features("output", block), slow.stream[block + 1])
        close(trace.features("input", block), slow.stream[block])
        close(trace.features("middle", block), slow.middle[block])
    last = trace.depth - 1
    if isinstance(trace.model.module.norm, nn.Identity):  # the norm comes after the pooling
        with pytest.raises(ModelError, match="no norm that reads its tokens"):
            trace.features(FINAL, last)
    else:
        with torch.no_grad():
            close(trace.features(FINAL, last), norm(slow.stream[-1], trace.model.module.norm))


def test_features_run_the_model_once_for_all_blocks_and_not_at_all_where_kept() -> None:
    trace = traced()
    kept = trace.model.trace(PHOTO, keep=("output",))
    runs: list[int] = []
    trace.model.module.register_forward_hook(lambda *_: runs.append(1))
    kept.features("output", 0)
    kept.features("output", 2)
    assert len(runs) == 0
    for block in (2, 0, 1):
        trace.features("output", block)
        run("token_norm", trace, block=block)
    assert len(runs) == 1
    run("feature_pca", trace)  # the final norm was seen on the way
    run("patch_similarity", trace)
    assert len(runs) == 1
    with pytest.raises(ValueError, match="cannot keep nonsense"):
        trace.features("nonsense", 0)


def test_features_of_a_batch_are_each_photos_own() -> None:
    vit = wrap_model(tiny_vit())
    both = vit.trace([PHOTO, OTHER], keep=("output",))
    for i, photo in enumerate((PHOTO, OTHER)):
        for name in ("output", "norm1"):  # kept, and not kept
            close(both[i].features(name, 1), vit.trace(photo).features(name, 1))
    with pytest.raises(ValueError, match="choose one"):
        both.features("output", 1)


def test_encoders_with_their_norms_first_are_read_and_others_refused() -> None:
    vit = wrap_model(tiny_encoder(), size=(16, 16))
    for name in NAMES:
        assert run(name, vit.trace(PHOTO)).values.shape[:2] == (4, 4)
    post = wrap_model(tiny_encoder(norm_first=False), size=(16, 16))
    for name in NAMES:
        support = post.supports(name)
        assert not support
        with pytest.raises(ModelError) as caught:
            run(name, post.trace(PHOTO))
        assert str(caught.value) == support.reason
    with pytest.raises(ModelError, match="no norm with weights"):
        post.trace(PHOTO).features("output", 0)


# -- all three -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_they_need_no_class_and_cost_one_pass(name: str) -> None:
    method = methods()[name]
    assert not method.class_specific
    assert method.question == "sees"
    trace = traced("headless")
    seen: list[tuple[int, int]] = []
    heat = run(name, trace, progress=lambda *at: seen.append(at))
    assert heat.target is None
    assert heat.prefix_share is None
    assert seen == [(0, 1), (1, 1)]
    assert method.cost(method.defaults, 16) == 1


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_gives_the_same_map(name: str) -> None:
    maps = []
    for dtype in (torch.float32, torch.bfloat16):
        module = tiny_vit(dtype=torch.float32).to(dtype)
        heat = run(name, wrap_model(module).trace(PHOTO), block=0)
        assert heat.values.dtype == np.float32
        maps.append(heat.values.ravel())
    assert np.corrcoef(maps)[0, 1] > 0.99


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("feature_pca", {"block": 3}, r"-3\.\.2"),
        ("feature_pca", {"at": "input"}, "auto, output, final"),
        ("feature_pca", {"block": 1, "at": "final"}, "reads the last block only; choose block 2"),
        ("token_norm", {"mask": "all"}, "none, outliers"),
        ("token_norm", {"deviations": 0}, r"1\.0\.\.50\.0"),
        ("patch_similarity", {"patch": 17}, r"0\.\.16"),
        ("patch_similarity", {"patch": -1}, r"0\.\.16"),
    ],
)
def test_bad_settings_are_told(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(name, traced(), **settings)


def test_without_a_final_norm_the_output_is_taken_or_the_reason_said() -> None:
    trace = traced("average")
    close(run("feature_pca", trace).values, run("feature_pca", trace, at="output").values)
    with pytest.raises(ModelError, match="choose the block's output"):
        run("feature_pca", trace, at="final")
