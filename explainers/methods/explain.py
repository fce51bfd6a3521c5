"""`explain`: the one verb. Checks what was asked, runs the method, completes the heat map."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from explainers.heatmap import HeatMap, Target
from explainers.image import Geometry
from explainers.methods.parameters import check_parameters
from explainers.methods.scoring import Objective, Progress
from explainers.models.errors import ModelError
from explainers.registry import Method, find_method
from explainers.scalars import whole_number
from explainers.sentence import Sentence
from explainers.trace import Trace, demand_trace
from explainers.version import __version__


class Cancelled(Exception):  # noqa: N818 - a wish of the user, not an error
    """Raised by a progress callback to stop the work; nothing is left behind."""


def explain(
    name: str,
    trace: Trace,
    target: int | str | None = None,
    against: int | str | None = None,
    progress: Progress | None = None,
    **parameters: Any,
) -> HeatMap | list[HeatMap]:
    """One method's map of a traced photo; a list of maps for a trace of several photos.

    target: class index or label, None = the photo's top class; against: a class to hold it
    against ("why A and not B"). progress(done, total) is called at every model call and may
    raise `Cancelled`. Raises ValueError for an unknown method, class or setting, ModelError
    where `VisionModel.supports` says no.
    """
    method = find_method(name)
    demand_trace(trace)
    support = trace.model.supports(name, row=parameters.get("row"))
    if not support:
        raise ModelError(support.reason)
    if len(trace) == 1:
        return _explain_one(method, trace, target, against, progress, parameters)
    return [
        _explain_one(method, trace[i], target, against, progress, parameters)
        for i in range(len(trace))
    ]


def _explain_one(
    method: Method,
    trace: Trace,
    target: int | str | None,
    against: int | str | None,
    progress: Progress | None,
    parameters: Mapping[str, Any],
) -> HeatMap:
    chosen = check_parameters(method, parameters, *_ranges(method, trace, parameters))
    aim, contrast, objective = None, None, None
    if method.class_specific and (trace.model.classes or "class" in method.needs):
        aim = find_target(trace, target)
        contrast = None if against is None else find_target(trace, against)
        if contrast is not None and contrast.index == aim.index:
            raise ValueError(same_contrast(aim.label))
        objective = Objective(aim.index, None if contrast is None else contrast.index)
    elif trace.model.classes:  # not needed; yet a class that is not there is a mistake
        for spec in (target, against):
            if spec is not None:
                trace.model.find_class(spec)
    # Whatever mode the caller is in: methods that need a graph enable it themselves.
    with torch.inference_mode(False), torch.no_grad():
        try:
            finding = method.function(trace, objective, progress or _quiet, **chosen)
        except (np.linalg.LinAlgError, torch.linalg.LinAlgError) as error:
            raise _not_finite(method, trace) from error  # what else a decomposition fails of
    dtype = np.float64 if trace.pixels.dtype == torch.float64 else np.float32
    values = np.ascontiguousarray(finding.values, dtype=dtype)
    if not np.isfinite(values).all():
        raise _not_finite(method, trace)
    geometry = _geometry(trace, values, finding.kind)
    heat = HeatMap(
        values=values,
        kind=finding.kind,
        signed=method.signed,
        method=method.name,
        title=method.title,
        meaning=method.meaning,
        photo=trace.photo,
        geometry=geometry,
        target=aim,
        against=contrast,
        parameters=chosen,
        prefix_share=finding.prefix_share,
        figures=dict(finding.figures),
        notes=(*finding.notes, *_grid_note(trace)),
        provenance={
            **_provenance(method, trace, chosen, aim, contrast),
            "geometry": asdict(geometry),
        },
    )
    heat.values.flags.writeable = False
    return heat


def same_contrast(label: str) -> Sentence:
    """Said where a class is to be held against itself."""
    return Sentence(
        "same_contrast",
        "The contrast is the explained class itself ({label}); choose another class.",
        label=label,
    )


def _not_finite(method: Method, trace: Trace) -> ModelError:
    return ModelError(
        Sentence(
            "not_finite_half",
            "{method} gave numbers that are not finite in half precision; try float32.",
            method=method.title,
        )
        if trace.pixels.dtype.itemsize < 4
        else Sentence(
            "not_finite",
            "{method} gave numbers that are not finite for this model and photo; check the "
            "weights for such numbers, and try another photo.",
            method=method.title,
        )
    )


def _ranges(method: Method, trace: Trace, parameters: Mapping[str, Any]) -> tuple[int, int, int]:
    """How many blocks, heads and tokens settings can name: those of the block asked for."""
    block = whole_number(parameters.get("block", -1))
    whole = block is not None and -trace.depth <= block < trace.depth
    if whole and trace.calls and "attention" in method.needs:
        call = trace.calls[block]  # type: ignore[index]
        return trace.depth, call.heads, call.rows_count
    return trace.depth, trace.heads, trace.tokens


def _geometry(trace: Trace, values: np.ndarray, kind: str) -> Geometry:
    """The trace's; with other cells for a map over a block's own grid."""
    grid = (values.shape[0], values.shape[1])
    if kind == "pixels" or grid == trace.grid:
        return trace.geometry
    height, width = trace.geometry.input_size
    return replace(trace.geometry, patch=(height // grid[0], width // grid[1]))


def find_target(trace: Trace, spec: int | str | None) -> Target:
    """The class meant by an index, a label or None (the top class), with its probability.

    Raises ValueError for an unknown or ambiguous class, ModelError for a headless model.
    """
    probabilities = trace.probabilities
    if probabilities is None:
        raise ModelError(trace.model.supports("saliency").reason)
    index = int(probabilities[0].argmax()) if spec is None else trace.model.find_class(spec)
    return Target(index, trace.model.label(index), float(probabilities[0, index]))


def _grid_note(trace: Trace) -> tuple[Sentence, ...]:
    trained = trace.model.trained_grids
    if trained is None or trace.grid in trained:
        return ()
    return (
        Sentence(
            "untrained_grid",
            "The photo was cut into {rows}×{columns} patches; the model was trained at {trained}.",
            rows=trace.grid[0],
            columns=trace.grid[1],
            trained=", ".join(f"{r}×{c}" for r, c in trained),
        ),
    )


def _provenance(
    method: Method,
    trace: Trace,
    parameters: Mapping[str, Any],
    target: Target | None,
    against: Target | None,
) -> dict[str, Any]:
    """All that the same map can be made from again; no dates, no paths."""
    preprocessing = asdict(trace.model.preprocessing)
    return {
        "model": trace.model.name,
        "loaded_weights_sha256": trace.model.weights_hash,
        "precision": str(trace.pixels.dtype).removeprefix("torch."),
        "photo_sha256": trace.photo.sha256,
        "preprocessing": preprocessing,
        "method": method.name,
        "parameters": dict(parameters),
        "target": None if target is None else asdict(target),
        "against": None if against is None else asdict(against),
        "threads": torch.get_num_threads(),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Of everything that a map's last digits may depend on: name → version."""
    packages = ("torch", "timm", "captum", "numpy", "pillow")
    return {
        "vitscope": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def _quiet(done: int, total: int) -> None:
    """No one is watching."""
