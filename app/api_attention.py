"""``/attention``: what one token looks at in one block, or what looks at it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, cast

import gradio as gr

from app import api_fields as fields
from app import attention_run
from app.api_asked import model_name
from app.api_call import calling, found, scene_of, worked
from app.api_fields import MODEL, demand, refusal
from app.api_offer import offer
from app.desks import Desk
from app.files import write_png
from app.scene import Request, Scene
from app.studio import Studio
from app.work import Report
from explainers import HeatMap, ModelError, explain
from explainers.methods.parameters import check_parameters
from explainers.registry import find_method
from explainers.trace import Trace

DIRECTIONS = ("looks", "looked_at")


def add(studio: Studio) -> None:
    """Add it."""

    def attention(
        request: gr.Request,
        photo: str | None,
        model: str | None,
        block: Any,
        head: str | None,
        token: str | None,
        direction: Any,
    ) -> tuple[str, dict[str, Any]]:
        """The attention of one token in one block, as a map on the photo and as numbers.

        Args:
            photo: the photo's file
            model: a model that is on this machine; /models lists them
            block: counted from 0; negative counts from the end
            head: mean, or a head's number
            token: empty for what decides; CLS or a token's number; or row,column of a patch from 0
            direction: looks (what the token looks at) or looked_at (what looks at the token)

        Returns:
            picture: the map on the photo
            attention: block, head, token, grid, values (rows of patches), prefix_share
        """
        with calling(studio, request) as desk:
            demand("direction", direction, DIRECTIONS)
            scene = scene_of(studio, desk, photo, model_name(model))
            trace = found(studio, desk, Request(scene)).answered.trace
            row = token_of(token, trace)
            asked = {"block": -1 if block is None else block, "head": head_of(head), "row": row}
            if direction == "looks":
                wish = Request(scene, ("attention",), {"attention": checked(asked, trace)})
                heat = found(studio, desk, wish).heat
            else:
                heat = looked_at(studio, desk, scene, trace, asked)
            picture = write_png(heat.overlay(), desk.folder, "attention")
            return picture, {"direction": direction, **told(heat)}

    asked = [
        fields.photo(),
        fields.text("model", MODEL),
        fields.whole("block", -1),
        fields.text("head", "mean"),
        fields.text("token"),
        fields.choice("direction", DIRECTIONS),
    ]
    given = [gr.Image(label="picture", format="png"), gr.JSON(label="attention")]
    offer("attention", attention, asked, given)


def head_of(text: str | None) -> int | str:
    """The mean, or a head's number; whether the model has it is checked with the block."""
    plain = (text or "mean").strip()
    if plain == "mean":
        return plain
    if not re.fullmatch(r"-?\d{1,6}", plain):
        raise refusal("head", text, "mean, or a head's number")
    return int(plain)


def token_of(text: str | None, trace: Trace) -> int | None:
    """A token's number, counted with those before the patches; None for what decides."""
    plain = (text or "").strip()
    names = [name.upper() for name in trace.model.adapter.prefix_names]
    rows, columns = trace.grid
    if not plain:
        return None
    if plain.upper() in names:
        return names.index(plain.upper())
    if re.fullmatch(r"\d{1,9}", plain):
        return int(plain)
    place = re.fullmatch(r"(\d{1,6})\s*,\s*(\d{1,6})", plain)
    if place is not None and int(place[1]) < rows and int(place[2]) < columns:
        return trace.prefix + int(place[1]) * columns + int(place[2])
    known = [*trace.model.adapter.prefix_names, f"0 … {trace.tokens - 1}"]
    raise refusal("token", text, ", ".join([*known, f"0,0 … {rows - 1},{columns - 1}"]))


def checked(asked: dict[str, Any], trace: Trace) -> dict[str, Any]:
    """The block, head and row, counted from 0; ValueError for what the model has not.

    Where blocks have grids of their own, the method itself knows how many there are.
    """
    if not trace.model.adapter.one_grid_support():
        return asked
    sizes = trace.depth, trace.heads, trace.tokens
    return check_parameters(find_method("attention"), asked, *sizes)


def looked_at(
    studio: Studio, desk: Desk, scene: Scene, trace: Trace, asked: dict[str, Any]
) -> HeatMap:
    """What every patch gives to a token: the column of the attention, as a map.

    ModelError where blocks have grids of their own, or what decides is no single token.
    """
    for support in (
        trace.model.adapter.one_grid_support(),
        trace.model.supports("attention", row=asked["row"]),
    ):
        if not support:
            raise ModelError(support.reason)
    plain = checked(asked, trace)
    block, head, token = plain["block"], plain["head"], plain["row"]
    if token is None:
        deciding = trace.look(block).nonzero().flatten().tolist()
        if len(deciding) != 1:
            raise refusal("token", "", "a token by its number: several decide in this model")
        token = deciding[0]

    def make(report: Report) -> HeatMap:
        values = attention_run.column(trace, block, token, None if head == "mean" else head)
        patches = values[trace.prefix :].double().cpu().numpy()
        like = cast(HeatMap, explain("attention", trace, block=block, row=token))
        return replace(
            like,
            values=patches.reshape(trace.grid).astype(like.values.dtype),
            parameters={"block": block, "head": head, "row": token},
            prefix_share=None,
        )

    key = "looked at", scene.eye, trace.photo.sha256, block, head, token
    return worked(studio, desk, key, make, lambda heat: heat.values.nbytes + 10_000)


def told(heat: HeatMap) -> dict[str, Any]:
    """The numbers of a map of attention; token: null for what decides.

    prefix_share: what the tokens before the patches get of all the token's looks; null of a
    column, which is no share of anything.
    """
    return {
        "block": heat.parameters["block"],
        "head": heat.parameters["head"],
        "token": heat.parameters["row"],
        "grid": list(heat.values.shape),
        "values": heat.values.tolist(),
        "prefix_share": heat.prefix_share,
    }
