"""tk.matmul and tk.plan_matmul: what users call, and the choice between the two ways to run it.

A plain eager call that needs no gradient goes straight to the library; everything that torch has to
see (autograd, torch.compile, modes, transforms, tracing, subclasses) goes through its dispatcher.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.compiler import is_compiling
from torch.overrides import handle_torch_function, has_torch_function

from tk.errors import wrong_value
from tk.ops.matmul_arguments import OPERATION, check, scalar
from tk.ops.matmul_eager import prepare, run
from tk.ops.matmul_function import differentiable_matmul, transformable_matmul
from tk.ops.matmul_op import matmul_op, matmul_out_op
from tk.ops.plan_text import plan_to_text
from tk.schedulers import Plan

__all__ = ["matmul", "plan_matmul"]

# Tensors whose operations nothing intercepts by their class.
_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))

_grad_enabled = torch.is_grad_enabled
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_transforms = torch._C._functorch.peek_interpreter_stack
_tracing = torch._C._get_tracing_state


def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    alpha: float = 1.0,
    c: torch.Tensor | None = None,
    beta: float = 0.0,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    plan: Plan | None = None,
) -> torch.Tensor:
    """activation(alpha * a @ b + bias + beta * c), in one kernel, accumulated in fp32.

    CUDA tensors run on their device's current stream, CPU tensors run the same kernel source on the
    host. Nothing is copied or cast: strides say how each tensor is read, and autocast is ignored.
    The results are the same bits at every call.

    Args:
        a: (M, K) or (batch, M, K), bf16 or fp16, of any strides, also 0. Contiguous K or M with
            16-byte aligned rows loads by TMA, anything else by a slower loader.
        b: (K, N) or (batch, K, N) of a's dtype and device, of any strides. Two axes, or a batch of
            1, on either side: the same matrix for every batch.
        bias: (N,), bf16, fp16 or fp32; added to every row.
        activation: None, "relu", "gelu" (exact, by erf), "gelu_tanh" or "silu".
        alpha: a real number.
        c: broadcastable to the output, bf16, fp16 or fp32; needs a beta other than 0.
        beta: a real number; needs c unless it is 0. There is no c that is given and ignored.
        out: where to write: of the output's shape, bf16, fp16 or fp32, of any strides by which its
            elements do not overlap, in memory apart from all inputs. Not differentiable.
        out_dtype: torch.bfloat16, torch.float16 or torch.float32; default: out's dtype, else a's.
        plan: how to run it, from `plan_matmul`, `tk.schedulers.plan_gemm` or `Plan.load`; default:
            a winner that `tk tune` stored, else the scheduler's choice (TK_TUNE says otherwise:
            `tk.tuning`). A plan whose tile order is a table that is not on the device yet
            runs in another order while a graph is captured; the results are the same bits.

    Returns:
        (M, N), or (batch, M, N) when a or b has a batch; `out` if given, else a new dense tensor.
        When K is 0 the product is 0; when M, N or the batch is 0 nothing runs.

    Gradients of a, b, bias and c have their inputs' dtypes. The products in them are by this kernel
    too, from an incoming gradient that is rounded to a's dtype first. The backward pass computes
    the activation's argument again (not for relu), and flattens the batch of operands that share
    one b, which copies only what is no view.

    Raises:
        TypeError: an argument is no tensor, number, string or dtype as above.
        ValueError: a rank, shape, dtype, device, value or plan is not as above; the text names
            the argument, what it was and what is allowed. Raised before anything runs.
        RuntimeError: the CUDA kernels are not in this build, or the launch failed.

    Source: as `torch.addmm`, with an activation; cuBLASLt's epilogues.
    """
    if not is_compiling():
        if type(alpha) is not float:
            alpha = scalar("alpha", alpha)
        if type(beta) is not float:
            beta = scalar("beta", beta)
        if (
            type(a) in _PLAIN
            and type(b) in _PLAIN
            and (bias is None or (type(bias) in _PLAIN and not bias.is_neg()))
            and (c is None or (type(c) in _PLAIN and not c.is_neg()))
            and (out is None or (type(out) in _PLAIN and not out.is_neg()))
            and not (a.is_neg() or b.is_neg())
            and not _dispatch_modes()
            and not _function_modes()
            and _tracing() is None
        ):
            transformed = _transforms() is not None or forward_ad._current_level >= 0
            if not transformed and not (
                _grad_enabled()
                and (
                    a.requires_grad
                    or b.requires_grad
                    or (bias is not None and bias.requires_grad)
                    or (c is not None and c.requires_grad)
                    or (out is not None and out.requires_grad)
                )
            ):
                return run(a, b, bias, activation, alpha, c, beta, out, out_dtype, plan)
            if out is None:
                function = transformable_matmul if transformed else differentiable_matmul
                return function(a, b, bias, c, activation, alpha, beta, out_dtype, plan)
            if transformed:
                raise wrong_value(OPERATION, "out", "given inside a torch.func transform", "None")
        tensors = (a, b, bias, c, out)
        if has_torch_function(tensors):
            overriding: Any = handle_torch_function
            result: torch.Tensor = overriding(
                matmul,
                tensors,
                a,
                b,
                bias=bias,
                activation=activation,
                alpha=alpha,
                c=c,
                beta=beta,
                out=out,
                out_dtype=out_dtype,
                plan=plan,
            )
            return result
        check(a, b, bias, activation, alpha, c, beta, out, out_dtype)
    return _dispatched(a, b, bias, activation, alpha, c, beta, out, out_dtype, plan)


def _dispatched(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    activation: str | None,
    alpha: float,
    c: torch.Tensor | None,
    beta: float,
    out: torch.Tensor | None,
    out_dtype: torch.dtype | None,
    plan: Plan | None,
) -> torch.Tensor:
    """The call as torch's dispatcher sees it."""
    text = None if plan is None else plan_to_text(OPERATION, plan)
    if out is None:
        result: torch.Tensor = matmul_op(a, b, bias, c, activation, alpha, beta, out_dtype, text)
        return result
    if torch.is_grad_enabled() and _any_requires_grad((a, b, bias, c, out)):
        raise wrong_value(
            OPERATION, "out", "given for inputs that require grad", "None then, or under no_grad"
        )
    if out_dtype is not None and out_dtype != out.dtype:
        raise wrong_value(OPERATION, "out_dtype", str(out_dtype), f"out's dtype, {out.dtype}")
    matmul_out_op(out, a, b, bias, c, activation, alpha, beta, text)
    return out


def _any_requires_grad(tensors: Iterable[torch.Tensor | None]) -> bool:
    return any(tensor is not None and tensor.requires_grad for tensor in tensors)


def plan_matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    alpha: float = 1.0,
    c: torch.Tensor | None = None,
    beta: float = 0.0,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Plan:
    """The plan that `matmul` with these arguments uses; the same checks, and nothing runs.

    When all batches share b and the rows of a, c and the output follow on, the plan is for one
    product of batch * M rows.

    Raises:
        TypeError, ValueError: as `matmul`, and ValueError for an empty output, which has no plan.
    """
    alpha, beta = scalar("alpha", alpha), scalar("beta", beta)
    prepared = prepare(a, b, bias, activation, alpha, c, beta, out, out_dtype, None)
    if prepared.plan is None:
        raise wrong_value(OPERATION, "the output", "empty", "of at least one element to be planned")
    return prepared.plan
