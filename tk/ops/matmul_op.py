"""tk::matmul and tk::matmul_out: the operations that torch's dispatcher, compiler and autograd see.

Both run the code of an eager call; what is added is a shape-only (fake) form and the gradients.
"""

from __future__ import annotations

import torch
from torch.autograd import forward_ad

from tk.ops.matmul_arguments import check
from tk.ops.matmul_eager import run
from tk.ops.matmul_gradient import backward, setup_context
from tk.ops.plan_text import plan_from_text

__all__ = ["matmul_op", "matmul_out_op"]

_DEVICES = ("cpu", "cuda")
_ARGUMENTS = (
    "Tensor a, Tensor b, Tensor? bias, Tensor? c, str? activation=None, float alpha=1.0, "
    "float beta=0.0"
)


def _refuse_forward_mode() -> None:
    """torch drops the tangents of a custom operation's inputs without a word, and takes the output
    for a constant. (Plain calls do not come here: `tk.ops.matmul_function` has the derivative.)"""
    if forward_ad._current_level >= 0:
        raise NotImplementedError(
            "tk.matmul: forward-mode differentiation (jvp, jacfwd) works in eager calls on plain "
            "tensors, not under torch.compile, a dispatch or function mode, or on tensor subclasses"
        )


def _matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    c: torch.Tensor | None,
    activation: str | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    out_dtype: torch.dtype | None = None,
    plan: str | None = None,
) -> torch.Tensor:
    _refuse_forward_mode()
    return run(a, b, bias, activation, alpha, c, beta, None, out_dtype, plan_from_text(plan))


def _matmul_out(
    out: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    c: torch.Tensor | None,
    activation: str | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    plan: str | None = None,
) -> None:
    _refuse_forward_mode()
    run(a, b, bias, activation, alpha, c, beta, out, None, plan_from_text(plan))


matmul_op = torch.library.custom_op(
    "tk::matmul",
    _matmul,
    mutates_args=(),
    device_types=_DEVICES,
    schema=f"({_ARGUMENTS}, ScalarType? out_dtype=None, str? plan=None) -> Tensor",
)
"""tk::matmul: a new tensor. `plan` is a plan's text (`tk.ops.plan_text`)."""

matmul_out_op = torch.library.custom_op(
    "tk::matmul_out",
    _matmul_out,
    mutates_args=("out",),
    device_types=_DEVICES,
    schema=f"(Tensor(a!) out, {_ARGUMENTS}, str? plan=None) -> ()",
)
"""tk::matmul_out: writes `out`. It has no gradient."""


@matmul_op.register_fake
def _matmul_fake(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    c: torch.Tensor | None,
    activation: str | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    out_dtype: torch.dtype | None = None,
    plan: str | None = None,
) -> torch.Tensor:
    _refuse_forward_mode()
    checked = check(a, b, bias, activation, alpha, c, beta, None, out_dtype)
    return torch.empty(checked.shape, dtype=checked.out_dtype, device=a.device)


@matmul_out_op.register_fake
def _matmul_out_fake(
    out: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    c: torch.Tensor | None,
    activation: str | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    plan: str | None = None,
) -> None:
    _refuse_forward_mode()
    check(a, b, bias, activation, alpha, c, beta, out, None)


matmul_op.register_autograd(backward, setup_context=setup_context)
