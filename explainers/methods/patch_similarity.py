"""Similarity of every patch's features to those of one chosen patch (Amir et al., 2022)."""

from __future__ import annotations

from torch.nn.functional import cosine_similarity

from explainers.heatmap import Finding
from explainers.methods.patch_features import AT, BLOCK, token_features
from explainers.methods.scoring import Progress
from explainers.registry import Method, Parameter, register
from explainers.sentence import Sentence
from explainers.trace import Trace


def patch_similarity(
    trace: Trace, objective: None, progress: Progress, *, patch: int | None, block: int, at: str
) -> Finding:
    """cos(x_i, x_j) of each patch i with the chosen token j: (h, w) in −1..1, signed.

    patch: a token's number (the prefix tokens come first), or None for the patch in the middle.
    """
    rows, columns = trace.grid
    middle = trace.prefix + rows // 2 * columns + columns // 2
    chosen = middle if patch is None else patch
    features = token_features(trace, progress, block, at)  # (N, width)
    values = cosine_similarity(features[trace.prefix :], features[chosen], dim=1)
    return Finding(values.reshape(trace.grid).numpy(), notes=(_compared(trace, chosen),))


def _compared(trace: Trace, token: int) -> Sentence:
    """Which token the map compares with: its place on the grid, counted from 1, or its name."""
    place = token - trace.prefix
    if place < 0:
        return Sentence(
            "similar_to_token",
            "Compared with the token {name}, which is no patch.",
            name=trace.model.adapter.prefix_names[token],
        )
    return Sentence(
        "similar_to_patch",
        "Compared with the patch in row {row}, column {column} of {rows}×{columns}.",
        row=place // trace.grid[1] + 1,
        column=place % trace.grid[1] + 1,
        rows=trace.grid[0],
        columns=trace.grid[1],
    )


METHOD = register(
    Method(
        name="patch_similarity",
        title="Patch similarity",
        meaning="What looks to the model like one chosen patch: how alike each patch's features "
        "are to that one's, from 1 (the same direction) through 0 to −1 (the opposite).",
        question="sees",
        class_specific=False,
        signed=True,
        unit="cosine",
        needs=("features",),
        cost=lambda parameters, patches: 1,
        paper="Amir, Gandelsman, Bagon & Dekel, Deep ViT Features as Dense Visual Descriptors, "
        "ECCV Workshops 2022",
        bibtex="""@inproceedings{amir2022deep,
  title={Deep ViT Features as Dense Visual Descriptors},
  author={Amir, Shir and Gandelsman, Yossi and Bagon, Shai and Dekel, Tali},
  booktitle={ECCV Workshops}, year={2022}}""",
        limits="Features share a common direction, so that even unlike patches can be well above "
        "0: compare within the map.",
        function=patch_similarity,
        parameters=(
            Parameter(
                "patch",
                None,
                "token",
                "Compared with which patch: a token's number, or empty for the one in the middle.",
            ),
            BLOCK,
            AT,
        ),
    )
)
