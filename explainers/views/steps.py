"""The steps from photo to answer, in order, and their formulas.

The formulas are LaTeX in the notation of Dosovitskiy et al., ICLR 2021, section 3.
"""

from __future__ import annotations

TOKENS = ("photo", "patches", "projection", "prefix", "positions")
"""From pixels to the tokens that enter the first block."""

BLOCK = ("norm", "scores", "softmax", "values", "merge", "mlp")
"""One block opened up."""

ANSWER = ("blocks", "head", "logits")
"""Over the blocks to the answer."""

STEPS = (*TOKENS, *BLOCK, *ANSWER)

FORMULAS = {
    "photo": r"x = \frac{\text{pixel}/255 - \mu}{\sigma},\qquad "
    r"x \in \mathbb{R}^{3 \times H \times W}",
    "patches": r"N = \frac{H}{P}\cdot\frac{W}{P},\qquad x_p^i \in \mathbb{R}^{P^2 \cdot 3}",
    "projection": r"e_i = E\,x_p^i + b,\qquad E \in \mathbb{R}^{D \times (P^2 \cdot 3)}",
    "prefix": r"[\,x_{\text{class}};\ e_1;\ \dots;\ e_N\,]",
    "positions": r"z_0 = [\,x_{\text{class}};\ e_1;\ \dots;\ e_N\,] + E_{pos}",
    "norm": r"\mathrm{LN}(z) = \gamma \odot \frac{z - \mathrm{mean}(z)}"
    r"{\sqrt{\mathrm{var}(z) + \varepsilon}} + \beta",
    "scores": r"s_{ij} = \frac{q_i \cdot k_j}{\sqrt{d}},\qquad [q, k, v] = \mathrm{LN}(z)\,U_{qkv}",
    "softmax": r"A_{ij} = \frac{e^{s_{ij}}}{\sum_{m} e^{s_{im}}},\qquad \sum_j A_{ij} = 1",
    "values": r"o_i = \sum_j A_{ij}\,v_j",
    "merge": r"z' = z + [\,o^{1};\ \dots;\ o^{h}\,]\,U_{msa}",
    "mlp": r"z'' = z' + \mathrm{MLP}(\mathrm{LN}(z')),\qquad "
    r"\mathrm{MLP}(u) = W_2\,\mathrm{GELU}(W_1 u + b_1) + b_2",
    "blocks": r"\cos(z_\ell, z_L) = \frac{z_\ell \cdot z_L}{\lVert z_\ell\rVert\,\lVert z_L\rVert},"
    r"\qquad y_\ell = \mathrm{head}(\mathrm{LN}(z_\ell))",
    "head": r"y_c = w_c \cdot \mathrm{LN}(z_L)^0 + b_c",
    "logits": r"p_c = \frac{e^{y_c}}{\sum_{k} e^{y_k}}",
}
