"""Vision Transformers of torchvision, transformers and open_clip, read as they are."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from explainers import explain, load_photo, methods, wrap_model
from explainers.image import Photo
from explainers.models.errors import ModelError
from explainers.models.preprocessing import Preprocessing
from explainers.models.vision_model import VisionModel
from tests.other_libraries import DEPTH, EVERY, TRANSFORMERS, WITH_HEAD, build, own_attention
from tests.tiny import CLASSES, PATCH, SQUARE, tiny_photo_array, tiny_pixels

PLAIN = Preprocessing(SQUARE, (0.5,) * 3, (0.5,) * 3)  # type: ignore[arg-type]
FEW = {
    "kernel_shap": {"samples": 40},
    "lime": {"samples": 20},
    "rise": {"masks": 4},
    "gradient_shap": {"samples": 2},
    "smoothgrad": {"samples": 2},
    "integrated_gradients": {"steps": 8},
}


@pytest.fixture(scope="module")
def photo() -> Photo:
    return load_photo(tiny_photo_array())


def wrapped(name: str, attention: str = "sdpa") -> VisionModel:
    return wrap_model(build(name, attention), PLAIN)


def answer(vit: VisionModel, pixels: Tensor) -> Tensor:
    """What the module itself answers, without ViTScope."""
    with torch.no_grad():
        found = vit.module(pixels)
    for name in ("logits", "image_embeds", "pooler_output"):
        if getattr(found, name, None) is not None:
            return getattr(found, name)
    return found


def state(module: nn.Module) -> list[Any]:
    parts = [(m.training, len(m._forward_hooks)) for m in module.modules()]
    return [parts, [(p.requires_grad, p.grad, p.sum().item()) for p in module.parameters()]]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", EVERY)
def test_attention_is_the_librarys_own(name: str, attention: str, photo: Photo) -> None:
    if attention == "eager" and name not in TRANSFORMERS:
        pytest.skip("only transformers can write its attention out")
    vit = wrapped(name, attention)
    before = state(vit.module)
    trace = vit.trace(photo)
    assert vit.attention_check, vit.attention_check
    reference = own_attention(name, vit.module, trace.pixels)
    assert len(reference) == trace.depth == DEPTH
    for block, expected in enumerate(reference):
        got = trace.attention(block)
        assert got.shape == expected[0].shape == (2, trace.tokens, trace.tokens)
        assert torch.allclose(got, expected[0].to(got.dtype), atol=1e-5)
    own = answer(vit, trace.pixels)
    assert torch.allclose(vit.logits(trace.pixels), own, atol=1e-12)
    if name in WITH_HEAD or name == "torchvision":
        assert vit.classes == CLASSES
        assert trace.logits is not None
        assert torch.allclose(trace.logits, own, atol=1e-9)
    else:
        assert vit.classes == 0
    assert state(vit.module) == before


@pytest.mark.parametrize("name", EVERY)
def test_the_tokens_that_decide_are_those_that_move_the_answer(name: str, photo: Photo) -> None:
    vit = wrapped(name)
    adapter = vit.adapter
    seen: list[Tensor] = []
    handle = adapter.blocks[-1].projection
    inputs = tiny_pixels(size=SQUARE)

    def keep(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        seen.append(output.detach().requires_grad_())
        return seen[-1]

    target: nn.Module = handle
    index = 0
    if type(handle) is not nn.Linear:  # inside nn.MultiheadAttention, which never calls it
        owner = next(m for m in vit.module.modules() if getattr(m, "out_proj", None) is handle)

        def keep_first(module: nn.Module, args: Any, output: Any) -> Any:
            return keep(module, args, output[index]), None

        hook = owner.register_forward_hook(keep_first)
    else:
        hook = target.register_forward_hook(keep)
    try:
        found = vit.logits(inputs)
    finally:
        hook.remove()
    signs = torch.arange(found.numel()).remainder(2) * 2 - 1
    (gradient,) = torch.autograd.grad((found.flatten() * signs).sum(), seen[0])
    feeds = gradient[0].abs().amax(-1) > 1e-12
    if adapter.pooling == "other":
        assert feeds[0]
        assert feeds[adapter.prefix :].all()
        assert not feeds[1 : adapter.prefix].any()
    else:
        assert torch.equal(feeds, adapter.decision_weights(len(feeds)) > 0)


@pytest.mark.parametrize("name", [*WITH_HEAD, "torchvision"])
def test_the_head_read_out_of_the_deciding_tokens_is_the_answer(name: str, photo: Photo) -> None:
    vit = wrapped(name)
    if not vit.adapter.readout_support():
        assert vit.adapter.pooling == "other"
        return
    trace = vit.trace(photo, keep=("output",))
    stream = trace.tensor("output", DEPTH - 1)[None]
    if vit.adapter.pooling == "distilled":
        module: Any = vit.module
        first, second = (module.deit.layernorm(stream[:, i]) for i in range(2))
        expected = (module.cls_classifier(first) + module.distillation_classifier(second)) / 2
        assert torch.allclose(expected, trace.logits, atol=1e-9)
        both = module.cls_classifier(first) + module.distillation_classifier(first)
        assert torch.allclose(vit.adapter.read_out(stream[:, :1]), both / 2, atol=1e-9)
        return
    deciding = stream[:, :1] if vit.adapter.pooling == "token" else stream[:, vit.adapter.prefix :]
    assert torch.allclose(vit.adapter.read_out(deciding), trace.logits, atol=1e-9)


@pytest.mark.parametrize("name", EVERY)
def test_every_method_gives_a_map_or_said_no(name: str, photo: Photo) -> None:
    vit = wrapped(name)
    trace = vit.trace(photo)
    side = SQUARE[0] // PATCH
    maps = 0
    for method, declared in methods().items():
        if not vit.supports(method):
            continue
        known = {parameter.name for parameter in declared.parameters}
        chosen = {k: v for k, v in FEW.get(method, {}).items() if k in known}
        values = explain(method, trace, **chosen).values
        assert np.isfinite(values).all()
        assert values.shape[:2] in ((side, side), SQUARE), method
        maps += 1
    assert maps >= (3 if vit.classes == 0 else 20), maps


@pytest.mark.parametrize("name", ["vit", "deit_teacher", "beit", "registers", "clip_projection"])
def test_another_size_has_its_own_grid(name: str, photo: Photo) -> None:
    size = (12, 20)
    vit = wrap_model(build(name), Preprocessing(size, PLAIN.mean, PLAIN.std))
    trace = vit.trace(photo)
    assert vit.attention_check, vit.attention_check
    assert trace.grid == (3, 5)
    assert vit.trained_grids == ((4, 4),)


def test_figure_7_is_drawn_from_the_librarys_own_places() -> None:
    for name in ("vit", "clip_vision", "torchvision", "open_clip"):
        adapter = wrapped(name).adapter
        assert adapter.patch_filters().shape == (16, 3, PATCH, PATCH)
        assert adapter.patch_positions().shape == (16, 16)
        assert adapter.position_grid() == (4, 4)
    assert not wrapped("beit").adapter.positions_support()


def test_labels_come_from_the_configuration(photo: Photo) -> None:
    module = build("vit")
    assert wrap_model(module, PLAIN).labels is None  # LABEL_0, LABEL_1: it only counts them
    module.config.id2label = dict(enumerate("abcde"))
    assert wrap_model(module, PLAIN).labels == ("a", "b", "c", "d", "e")
    assert wrap_model(module, PLAIN, labels=["v", "w", "x", "y", "z"]).label(4) == "z"
    bare = build("vit_bare")
    bare.config.id2label = dict(enumerate("abcde"))
    assert wrap_model(bare, PLAIN).labels is None


# -- preprocessing -----------------------------------------------------------------------------


def test_an_image_processor_is_preprocessing(photo: Photo) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    module = build("vit")
    cases = [
        transformers.ViTImageProcessor(size={"height": 16, "width": 16}, resample=3),
        transformers.CLIPImageProcessor(
            size={"shortest_edge": 20}, crop_size={"height": 16, "width": 16}
        ),
        transformers.DeiTImageProcessor(
            size={"height": 20, "width": 20}, crop_size={"height": 16, "width": 16}
        ),
    ]
    for processor in cases:
        vit = wrap_model(module, processor)
        assert vit.notes == ()
        own = processor(photo.to_pil(), return_tensors="pt").pixel_values[0]
        level = 1 / 255 / min(vit.preprocessing.std)
        assert vit.preprocessing(photo).shape == own.shape
        assert (vit.preprocessing(photo) - own).abs().max() < 1.6 * level
    with pytest.raises(ModelError, match="1/255"):
        wrap_model(module, transformers.ViTImageProcessor(rescale_factor=1 / 127.5))
    with pytest.raises(ModelError, match="dict came"):
        wrap_model(module, {"mean": 3})


def test_what_is_saved_beside_a_model_is_used(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    module = build("vit")
    assert [note.key for note in wrap_model(module).notes] == ["preprocessing_usual"]
    module.save_pretrained(tmp_path)
    mean, std = [0.1, 0.2, 0.3], [0.4, 0.5, 0.6]
    processor = transformers.ViTImageProcessor(
        size={"height": 16, "width": 16}, image_mean=mean, image_std=std, resample=3
    )
    processor.save_pretrained(tmp_path)
    vit = wrap_model(transformers.ViTForImageClassification.from_pretrained(tmp_path).eval())
    assert vit.notes == ()
    assert vit.preprocessing == Preprocessing(
        SQUARE, tuple(mean), tuple(std), "bicubic", 1.0, "squash"
    )


def test_torchvisions_transforms_are_preprocessing_bit_for_bit(photo: Photo) -> None:
    from torchvision.models import ViT_B_16_Weights

    module = build("torchvision")
    preset = ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1.transforms
    for transforms in (preset(), preset(crop_size=16, resize_size=19)):
        ours = wrap_model(module, transforms).preprocessing
        assert torch.allclose(ours(photo), transforms(photo.to_pil()), atol=1e-6)
    usual = wrap_model(module).preprocessing
    transforms = ViT_B_16_Weights.IMAGENET1K_V1.transforms(crop_size=16, resize_size=18)
    assert usual.size == SQUARE
    assert torch.allclose(usual(photo), transforms(photo.to_pil()), atol=1e-6)


@pytest.mark.parametrize("mode", ["shortest", "longest", "squash"])
def test_open_clips_settings_are_preprocessing(mode: str, photo: Photo) -> None:
    transform = pytest.importorskip("open_clip.transform", reason="open_clip is not installed")
    module = build("open_clip")
    config = transform.PreprocessCfg(size=16, resize_mode=mode)
    module.preprocess_cfg = {**vars(config)}
    ours = wrap_model(module).preprocessing
    theirs = transform.image_transform_v2(config, is_train=False)(photo.to_pil())
    inner = (slice(None), slice(3, 13), slice(None))  # open_clip fills borders with black
    assert torch.allclose(
        ours(photo)[inner], theirs[inner], atol=0.05 if mode == "longest" else 1e-6
    )


# -- whole models and refusals -----------------------------------------------------------------


def test_of_an_open_clip_model_the_image_tower_is_read(photo: Photo) -> None:
    open_clip = pytest.importorskip("open_clip", reason="open_clip is not installed")
    vision = {"image_size": 16, "patch_size": 4, "width": 16, "layers": 2, "head_width": 8}
    text = {"width": 16, "heads": 2, "layers": 1}
    model = open_clip.model.CLIP(
        8, open_clip.CLIPVisionCfg(**vision), open_clip.CLIPTextCfg(**text)
    )
    vit = wrap_model(model.eval(), PLAIN)
    assert vit.module is model.visual
    assert vit.trace(photo).depth == 2
    timm_tower = open_clip.timm_model.TimmModel("test_vit", 8, 160, pool="", proj="linear").eval()
    vit = wrap_model(timm_tower)
    assert vit.module is timm_tower.trunk
    assert vit.classes == 0
    assert [note.key for note in vit.notes] == ["projection_left_out"]
    tower = build("open_clip")
    tower.output_tokens = True
    assert wrap_model(tower, PLAIN).logits(tiny_pixels()).shape == (1, 8)


def test_other_models_of_these_libraries_are_refused_in_words() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    vit = transformers.ViTConfig(**small, intermediate_size=16)
    text = transformers.CLIPTextConfig(**small, intermediate_size=16, vocab_size=99)
    for module in (
        transformers.ViTForMaskedImageModeling(vit),
        transformers.CLIPTextModel(text),
        transformers.CLIPModel(transformers.CLIPConfig(text_config=text.to_dict())),
        transformers.ResNetForImageClassification(
            transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8], depths=[1])
        ),
    ):
        with pytest.raises(ModelError, match="is not read; ForImageClassification") as error:
            wrap_model(module.eval())
        assert type(module).__name__ in str(error.value)


def test_open_clips_other_towers_are_refused() -> None:
    resnet = pytest.importorskip("open_clip.modified_resnet", reason="open_clip is not installed")
    module = resnet.ModifiedResNet([1, 1, 1, 1], 8, 2, image_size=32, width=8)
    with pytest.raises(ModelError, match="ModifiedResNet"):
        wrap_model(module.eval())


def test_no_other_library_is_imported_here(root: Path) -> None:
    for path in sorted((root / "explainers").rglob("*.py")):
        words = path.read_text(encoding="utf-8").split()
        for before, name in pairwise(words):
            library = name.partition(".")[0]
            assert not (before in ("import", "from") and library in ("transformers", "open_clip"))
