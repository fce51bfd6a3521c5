"""Methods that share one gradient pass: their time together, their memory, and peers beside them.

    python -m benchmarks.methods                     ViT-B/16 at 224 px
    python -m benchmarks.methods --size 384

Times are medians of paired runs, as ratios: all shared-pass methods together against one
forward + backward pass; each method against each installed peer that has it (see
requirements-peers.txt). Our traces are made with ``gradients=True``, one pass for trace and
gradients. Memory is that of relevance on a plain trace, against the way that stores every
attention map and its gradient: peak memory of fresh processes over that of the loaded model.
Weights are random: neither time nor memory depends on them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec

import torch

from benchmarks.memory import peak_mb, peak_of
from benchmarks.rollout import prepared
from explainers import Photo, VisionModel, explain

SHARED = (
    "relevance",
    "gradient_rollout",
    "gradient_x_attention",
    "daam",
    "grad_cam",
    "hires_cam",
    "layer_cam",
    "eigen_cam",
)
CAMS = {
    "grad_cam": "GradCAM",
    "grad_cam_plus_plus": "GradCAMPlusPlus",
    "hires_cam": "HiResCAM",
    "layer_cam": "LayerCAM",
    "xgrad_cam": "XGradCAM",
    "eigen_cam": "EigenCAM",
}
TARGET = 7

Work = Callable[[], object]


def forward_backward(vit: VisionModel, pixels: torch.Tensor) -> None:
    leaf = pixels.clone().requires_grad_()
    torch.autograd.grad(vit.module(leaf)[0, TARGET], leaf)


def ours(vit: VisionModel, photo: Photo, names: tuple[str, ...], ready: bool = True) -> None:
    """A new trace and these methods on it: what a person waits for."""
    trace = vit.trace(photo, gradients=ready)
    for name in names:
        explain(name, trace, TARGET)


def stored(vit: VisionModel, pixels: torch.Tensor) -> torch.Tensor:
    """Relevance the stored way: every attention map kept, with its gradient, whole matrices."""
    maps: list[torch.Tensor] = []
    handles = []
    for block in vit.module.blocks:
        block.attn.fused_attn = False

        def keep(_: object, __: object, output: torch.Tensor) -> None:
            maps.append(output)

        handles.append(block.attn.attn_drop.register_forward_hook(keep))
    leaf = pixels.clone().requires_grad_()
    gradients = torch.autograd.grad(vit.module(leaf)[0, TARGET], maps)
    relevance = torch.eye(maps[0].shape[-1])
    for attention, gradient in zip(maps, gradients, strict=True):
        fused = (attention.detach() * gradient)[0].clamp(min=0).mean(0)
        relevance = relevance + fused @ relevance
    for block, handle in zip(vit.module.blocks, handles, strict=True):
        block.attn.fused_attn = True
        handle.remove()
    return relevance[0, 1:]


def peers(vit: VisionModel, pixels: torch.Tensor) -> dict[str, tuple[str, Work]]:
    """Each method's peer, where its package is installed: (package, what it does)."""
    found: dict[str, tuple[str, Work]] = {
        "relevance": ("stored attention", lambda: stored(vit, pixels))
    }
    if find_spec("pytorch_grad_cam"):
        import pytorch_grad_cam
        from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

        height, width = vit.adapter.grid(pixels.shape[-2:])

        def to_grid(x: torch.Tensor) -> torch.Tensor:
            return x[:, 1:].unflatten(1, (height, width)).permute(0, 3, 1, 2)

        layers = [vit.module.blocks[-1].norm1]
        for name, peer in CAMS.items():
            cam = getattr(pytorch_grad_cam, peer)(vit.module, layers, to_grid)
            aim = [ClassifierOutputTarget(TARGET)]
            found[name] = (
                "grad-cam",
                lambda cam=cam, aim=aim: cam(pixels.clone().requires_grad_(), aim),
            )
    if find_spec("daam"):
        from daam import DAAM

        def run_daam() -> None:
            with DAAM(vit.module) as method:
                method(pixels, TARGET)

        found["daam"] = "daam-timm-vit", run_daam
    if find_spec("captum"):
        from captum.attr import InputXGradient, Saliency

        for name, kind in (("saliency", Saliency), ("input_x_gradient", InputXGradient)):
            method = kind(vit.module)
            found[name] = (
                "captum",
                lambda method=method: method.attribute(pixels.clone().requires_grad_(), TARGET),
            )
    return found


def paired(first: Work, second: Work, runs: int) -> float:
    """Median of (seconds of second) / (seconds of first), run in turn after one warm-up."""
    first(), second()
    return statistics.median(seconds(second) / seconds(first) for _ in range(runs))


def seconds(work: Work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak(size: int, what: str) -> float:
    """Peak resident memory in MB of a fresh process that does one thing."""
    return peak_of("benchmarks.methods", "--size", str(size), "--only", what)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="vit_base_patch16_224")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--only", choices=("load", "relevance", "stored"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    vit, photo, pixels = prepared(arguments.model, arguments.size)
    if arguments.only:
        if arguments.only == "relevance":
            ours(vit, photo, ("relevance",), ready=False)
        elif arguments.only == "stored":
            stored(vit, pixels)
        print(peak_mb())
        return
    plain = lambda: forward_backward(vit, pixels)  # noqa: E731
    print(f"{arguments.model} at {arguments.size} px; ratios to one forward + backward pass:")
    for label, names in (
        (f"{len(SHARED)} shared-pass methods together", SHARED),
        ("the same with LeGrad", (*SHARED, "legrad")),
    ):
        ratio = paired(plain, lambda names=names: ours(vit, photo, names), arguments.runs)
        print(f"  {label:40s} {ratio:5.2f} ×")
    print("each method, with its trace, against its peer:")
    for name, (package, work) in peers(vit, pixels).items():
        ratio = paired(work, lambda name=name: ours(vit, photo, (name,)), arguments.runs)
        print(f"  {name:24s} {package:18s} {ratio:5.2f} ×")
    loaded, relevance, kept = (
        peak(arguments.size, what) for what in ("load", "relevance", "stored")
    )
    print("memory of relevance over the loaded model:")
    print(f"  ours {relevance - loaded:.0f} MB, stored attention {kept - loaded:.0f} MB")


if __name__ == "__main__":
    main()
