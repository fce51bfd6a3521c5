"""The Anatomy tab's last steps: over the blocks, the head, and the answer."""

from __future__ import annotations

from html import escape

from torch import Tensor

from app.anatomy_pieces import (
    Shown,
    View,
    bars,
    formulas,
    num,
    number,
    paragraph,
    percent,
    plus,
    said,
    shape_line,
    short_num,
    vector,
)
from app.errors import explain_error
from explainers.render.strips import CLASSES, OTHER, class_colours

ANSWERS = 5
"""Classes listed with the answer."""

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 560, 200, 44, 30, 10
"""The drawing of the similarities, in its own units."""


def blocks(view: View) -> Shown:
    """How the deciding vector turns into the answer, and what each block would say."""
    found, trace = view.anatomy.lens, view.trace
    tokens = view.anatomy.positioned.shape
    detail = shape_line(view, ("input.0", tokens), (f"output.{trace.depth - 1}", tokens))
    detail += paragraph(view.say("anatomy_similarity"))
    detail += _similarity(view)
    if found.probabilities is not None:
        detail += paragraph(view.say("anatomy_lens"))
        detail += _answers(view, found.probabilities)
    else:
        detail += paragraph(said(view, found.support.reason or ""), "vs-refused")
    pooling = trace.model.adapter.pooling
    notes = [] if pooling == "token" else [view.say("anatomy_pooled_by", name=_pooling(view))]
    picture, under = view.picture(), ""
    try:
        answers = view.anatomy.patch_answers(view.block)
    except ValueError as error:
        under = paragraph(explain_error(view.lang, error), "vs-refused")
    else:
        likely = answers.argmax(-1).reshape(trace.grid).cpu().numpy()
        cells, named = class_colours(likely)
        picture = view.picture(cells.reshape(-1, 3))
        own = int(likely[view.row, view.column])
        chance = float(answers[view.patch, own])
        under = _legend(view, named) + paragraph(
            view.say(
                "anatomy_patch_says",
                patch=view.name(view.token),
                block=view.block,
                label=view.label(own),
                percent=percent(chance),
            ),
            "vs-state",
        )
    return Shown(
        picture,
        view.say("anatomy_blocks_alt", block=view.block),
        under=under,
        detail=detail,
        notes=notes,
    )


def head(view: View) -> Shown:
    """One number a class: the pooled vector laid over the class's weights."""
    anatomy = view.anatomy
    index = view.trace.top(1)[0][0]
    pooled, weights = (t.cpu().double() for t in (anatomy.pooled, anatomy.head_weight[index]))
    products = pooled * weights
    bias, logit = float(anatomy.head_bias[index]), float(anatomy.tensor("logits")[index])
    strong = products.abs().topk(min(6, len(products))).indices.tolist()
    rest = logit - bias - float(products[strong[:2]].sum())
    others = view.say("anatomy_others", count=len(products) - 2)
    return Shown(
        view.picture(lines=False, frame=False),
        view.say("anatomy_head_alt"),
        detail=shape_line(
            view, ("pooled", pooled.shape), ("head_weight", anatomy.head_weight.shape)
        )
        + vector(view, view.say("anatomy_pooled"), "pooled")
        + vector(view, view.say("anatomy_weights", label=view.label(index)), "head_weight", index)
        + paragraph(view.say("anatomy_products", label=view.label(index)))
        + bars(
            (
                (
                    view.say("anatomy_feature", index=j),
                    float(products[j]),
                    number(float(products[j])),
                )
                for j in strong
            ),
            signed=True,
        ),
        worked=formulas(
            rf"y = {num(float(products[strong[0]]))} {plus(float(products[strong[1]]))} + "
            rf"\underbrace{{({num(rest)})}}_{{\text{{{others}}}}} {plus(bias)} = {num(logit)}"
        ),
        notes=[]
        if view.trace.model.adapter.pooling == "token"
        else [view.say("anatomy_pooled_by", name=_pooling(view))],
    )


def logits(view: View) -> Shown:
    """The model's answer: logits, and what softmax makes of them."""
    trace = view.trace
    answer = view.anatomy.tensor("logits").cpu().double()
    top = trace.top(ANSWERS)
    rows = [(view.label(i), p, f"{percent(p)} <small>{number(float(answer[i]))}</small>")
            for i, _, p in top]  # fmt: skip
    total = float(answer.exp().sum())
    first, _, share = top[0]
    return Shown(
        view.picture(lines=False, frame=False),
        view.say("anatomy_logits_alt", label=view.label(first), percent=percent(share)),
        detail=shape_line(view, ("logits", answer.shape))
        + paragraph(view.say("anatomy_answer"))
        + bars(rows, top=1.0)
        + vector(view, view.say("anatomy_all_logits"), "logits"),
        worked=formulas(
            rf"p = \frac{{e^{{{num(float(answer[first]))}}}}}{{\sum_k e^{{y_k}}}} = "
            rf"\frac{{{short_num(float(answer[first].exp()))}}}{{{short_num(total)}}} = {share:.4f}"
        ),
    )


def _similarity(view: View) -> str:
    """Cosine to the last block's vector, block by block, as a small drawing."""
    values = view.anatomy.lens.similarity
    low = min(0.0, float(values.min()))
    step = (WIDTH - LEFT - 12) / max(1, len(values) - 1)

    def place(index: int, value: float) -> tuple[float, float]:
        y = TOP + (1 - (value - low) / (1 - low)) * (HEIGHT - TOP - BOTTOM)
        return LEFT + index * step, y

    points = [place(i, float(v)) for i, v in enumerate(values)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(
        f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{5 if i == view.block + 1 else 3}'/>"
        for i, (x, y) in enumerate(points)
    )
    every = max(1, len(values) // 13)
    names = "".join(
        f"<text x='{x:.1f}' y='{HEIGHT - 12}' text-anchor='middle'>"
        f"{escape(view.say('anatomy_start')) if i == 0 else i - 1}</text>"
        for i, (x, _) in enumerate(points)
        if i % every == 0
    )
    grid = "".join(
        f"<path class='vs-grid' d='M{LEFT},{place(0, v)[1]:.1f}H{WIDTH - 12}'/>"
        f"<text x='{LEFT - 6}' y='{place(0, v)[1] + 4:.1f}' text-anchor='end'>{v:g}</text>"
        for v in (0.0, 0.5, 1.0)
    )
    words = view.say("anatomy_similarity_alt", values=", ".join(f"{float(v):.2f}" for v in values))
    return (
        f"<svg class='vs-line' viewBox='0 0 {WIDTH} {HEIGHT}' role='img' "
        f"aria-label='{escape(words, quote=True)}'>{grid}{names}"
        f"<polyline points='{line}'/>{dots}</svg>"
    )


def _answers(view: View, chances: Tensor) -> str:
    """A table: after each block, its likeliest class, and the chance of the final one."""
    final = int(chances[-1].argmax())
    lines = []
    for i, row in enumerate(chances):
        best = int(row.argmax())
        css = " class='vs-now'" if i == view.block + 1 else ""
        name = view.say("anatomy_start") if i == 0 else str(i - 1)
        lines.append(
            f"<tr{css}><th scope='row'>{escape(name)}</th><td>{escape(view.label(best))}</td>"
            f"<td>{percent(float(row[best]))}</td><td>{percent(float(row[final]))}</td></tr>"
        )
    heads = [
        view.say("anatomy_after_block"),
        view.say("anatomy_would_say"),
        view.say("anatomy_chance"),
        view.say("anatomy_chance_of", label=view.label(final)),
    ]
    header = "".join(f"<th scope='col'>{escape(text)}</th>" for text in heads)
    return f"<table class='vs-lens'><tr>{header}</tr>{''.join(lines)}</table>"


def _legend(view: View, named: list[int]) -> str:
    """Which colour is which class."""
    entries = [
        (colour, view.label(index)) for colour, index in zip(CLASSES, named, strict=False)
    ] + [(OTHER, view.say("anatomy_other_classes"))]
    spans = "".join(
        f"<span><i style='background: rgb{colour}'></i>{escape(name)}</span>"
        for colour, name in entries
    )
    return f"<p class='vs-keys'>{spans}</p>"


def _pooling(view: View) -> str:
    pooling = view.trace.model.adapter.pooling
    return view.say(f"anatomy_pool_{pooling}")
