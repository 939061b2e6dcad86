"""Attention made ready, for one set of shapes, strides and options, and its launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from tk._binding import AttentionCall
from tk.ops.attention_arguments import OPERATION, Checked, turned_shape, turns_output
from tk.ops.attention_layout import Layout
from tk.ops.overlap import Operand, refuse_overlap
from tk.ops.scratch import Scratch, stream_of
from tk.runtime import Backend
from tk.schedulers import Plan

__all__ = ["PreparedAttention"]


class PreparedAttention:
    """Attention ready to run at any addresses. `plan` is None when nothing is to be launched:
    `layout` says whether the output is empty or, for want of keys, 0.

    `allocate()` makes the output, `allocate_lse()` the log-sum-exp,
    `refuse_overlap(address, addresses)` is for an output that the caller brought, `launch` takes
    addresses, 0 for what is not given.
    """

    __slots__ = (
        "_backend",
        "_call",
        "_operands",
        "_out",
        "_stream",
        "allocate",
        "allocate_lse",
        "checked",
        "last_use",
        "launches",
        "layout",
        "plan",
        "request",
    )

    def __init__(
        self,
        backend: Backend,
        checked: Checked,
        layout: Layout,
        plan: Plan | None,
        operands: Sequence[Operand],
        out: Operand,
        q: torch.Tensor,
        request: object,
    ) -> None:
        self.last_use = 0
        self.checked = checked
        self.layout = layout
        self.plan = plan
        self.launches = not (layout.empty or layout.keyless)
        self.request = request  # keeps alive what the cache's key names by its id
        self._backend = backend
        self._operands = operands
        self._out = out
        self._stream = stream_of(backend)
        turned = turns_output(q, checked)
        shape = turned_shape(checked.shape) if turned else checked.shape
        made = partial(torch.empty, shape, dtype=q.dtype, device=q.device)
        self.allocate: Callable[[], torch.Tensor] = (
            (lambda: made().transpose(1, 2)) if turned else made
        )
        self.allocate_lse: Callable[[], torch.Tensor] = partial(
            torch.empty, checked.lse_shape, dtype=torch.float32, device=q.device
        )
        self._call = None if plan is None else _bound(backend, layout, plan)

    def refuse_overlap(self, address: int, addresses: Sequence[int]) -> None:
        """ValueError when an output at `address` shares a byte with an operand at its own."""
        refuse_overlap(OPERATION, self._out, address, self._operands, addresses)

    def launch(
        self,
        q: int,
        k: int,
        v: int,
        out: int,
        lse: int,
        cu_seqlens_q: int,
        cu_seqlens_k: int,
        alibi_slopes: int,
        bias: int,
    ) -> None:
        """Runs on the current stream of its device."""
        call = self._call
        assert call is not None
        stream = self._stream(self._backend.index)
        memory = Scratch(self._backend, stream, call.workspace_bytes, call.num_counters)
        call(
            q,
            k,
            v,
            out,
            lse,
            cu_seqlens_q,
            cu_seqlens_k,
            alibi_slopes,
            bias,
            memory.workspace,
            memory.counters,
            stream,
        )


def _bound(backend: Backend, layout: Layout, plan: Plan) -> AttentionCall:
    problem = layout.problem
    return AttentionCall(
        backend.library,
        batch=problem.batch,
        heads=problem.heads,
        kv_heads=problem.kv_heads,
        queries=problem.queries,
        keys=problem.keys,
        head_dim=problem.head_dim,
        value_dim=problem.value_dim,
        total_queries=problem.total_queries,
        total_keys=problem.total_keys,
        packed=problem.packed,
        q_strides=layout.q,
        k_strides=layout.k,
        v_strides=layout.v,
        out_strides=layout.out,
        lse_strides=layout.lse,
        alibi_strides=layout.alibi,
        bias_strides=layout.bias,
        bias_dtype=layout.bias_dtype,
        causal=layout.causal,
        window_left=problem.window_left,
        window_right=-1 if layout.causal else problem.window_right,
        scale=layout.scale,
        softcap=layout.softcap,
        instance=plan.instance.index,
        num_stages=plan.num_stages,
        grid=plan.grid,
        device=backend.index,
        order_kind=plan.order.code,
        order_param=plan.order.param,
        longest_first=plan.longest_first,
        dynamic=plan.dynamic,
        turns=plan.turns,
        pack_heads=plan.pack_heads,
        splits=plan.splits,
    )
