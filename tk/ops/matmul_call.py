"""A matrix product made ready, for one set of shapes, strides and options, and its launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from tk import resources
from tk._binding import MatmulCall
from tk.ops.matmul_arguments import OPERATION
from tk.ops.matmul_layout import Layout
from tk.ops.overlap import Operand, refuse_overlap
from tk.ops.scratch import Scratch, stream_of
from tk.runtime import Backend
from tk.schedulers import Order, Plan

__all__ = ["Epilogue", "PreparedMatmul"]


# A closed form that is good everywhere, for where a table of tiles cannot be had.
_TABLELESS = Order("grouped_m", 8)


@dataclass(frozen=True)
class Epilogue:
    """What happens to the product: codes and numbers of the C interface."""

    activation: int
    alpha: float
    beta: float
    c_dtype: int
    bias_dtype: int
    out_dtype: int


class PreparedMatmul:
    """A product ready to run at any addresses. `plan` is None when the output is empty.

    `allocate()` makes the output, `refuse_overlap(addresses, address)` is for one that the caller
    brought, `launch(a, b, c, bias, out)` takes addresses, 0 for what is not given.
    """

    __slots__ = (
        "_backend",
        "_bytes",
        "_call",
        "_epilogue",
        "_index",
        "_num_counters",
        "_operands",
        "_out",
        "_out_bytes",
        "_replanned",
        "_simple",
        "_stream",
        "_table",
        "_workspace_bytes",
        "allocate",
        "last_use",
        "layout",
        "plan",
        "request",
    )

    def __init__(
        self,
        backend: Backend,
        where: torch.device,
        layout: Layout,
        plan: Plan | None,
        epilogue: Epilogue,
        operands: Sequence[Operand | None],
        out: Operand,
        out_dtype: torch.dtype,
        request: object = None,
    ) -> None:
        self.last_use = 0
        self.layout = layout
        self.plan = plan
        self.request = request  # keeps alive what the cache's key names by its id
        self.allocate: Callable[[], torch.Tensor] = partial(
            torch.empty, *out.shape, dtype=out_dtype, device=where
        )
        self._backend = backend
        self._epilogue = epilogue
        self._index = backend.index
        self._operands = tuple(operands)
        self._bytes = tuple(0 if each is None else each.bytes for each in operands)
        self._out = out
        self._out_bytes = out.bytes
        self._stream = stream_of(backend)
        self._replanned: PreparedMatmul | None = None
        self._table: torch.Tensor | None = None
        self._call = None if plan is None else _bound(backend, layout, plan, epilogue)
        self._workspace_bytes = 0 if self._call is None else self._call.workspace_bytes
        self._num_counters = 0 if self._call is None else self._call.num_counters
        tabled = plan is not None and plan.order.needs_table
        self._simple = not (tabled or self._workspace_bytes or self._num_counters)
        if tabled and backend.kind == "host":
            assert plan is not None
            entries = plan.order.table(*_cluster_grid(layout, plan))
            self._table = torch.tensor(entries, dtype=torch.int32)

    def refuse_overlap(self, addresses: Sequence[int], address: int) -> None:
        """ValueError when an output at `address` shares a byte with an operand; `addresses` are
        those of a, b, bias and c."""
        end = address + self._out_bytes
        for start, size in zip(addresses, self._bytes, strict=True):
            if start < end and address < start + size:
                break
        else:
            return  # not even the ranges cross
        refuse_overlap(OPERATION, self._out, address, self._operands, addresses)

    def launch(self, a: int, b: int, c: int, bias: int, out: int) -> None:
        """Runs the product on the current stream of its device."""
        call = self._call
        if call is None:
            return
        if self._simple:
            call(a, b, c, bias, out, 0, 0, 0, self._stream(self._index))
        elif self._backend.kind == "host":
            self._launch_on_host(call, a, b, c, bias, out)
        else:
            self._launch_on_cuda(call, a, b, c, bias, out)

    def _launch_on_host(
        self, call: MatmulCall, a: int, b: int, c: int, bias: int, out: int
    ) -> None:
        memory = Scratch(self._backend, 0, self._workspace_bytes, self._num_counters)
        table = 0 if self._table is None else self._table.data_ptr()
        call(a, b, c, bias, out, table, memory.workspace, memory.counters, 0)

    def _launch_on_cuda(
        self, call: MatmulCall, a: int, b: int, c: int, bias: int, out: int
    ) -> None:
        assert self.plan is not None
        stream = self._stream(self._index)
        table = 0
        if self.plan.order.needs_table:
            held = self._cuda_table(self.plan)
            if held is None:
                self._without_table(self.plan).launch(a, b, c, bias, out)
                return
            table = held.data_ptr()
        memory = Scratch(self._backend, stream, self._workspace_bytes, self._num_counters)
        call(a, b, c, bias, out, table, memory.workspace, memory.counters, stream)

    def _cuda_table(self, plan: Plan) -> torch.Tensor | None:
        if self._table is None:
            rows, cols = _cluster_grid(self.layout, plan)
            self._table = resources.order_table(
                self._index,
                (plan.order.kind, plan.order.param),
                rows,
                cols,
                lambda: plan.order.table(rows, cols),
            )
        return self._table

    def _without_table(self, plan: Plan) -> PreparedMatmul:
        """The same product in an order that needs no table; the results are the same bits."""
        if self._replanned is None:
            other = PreparedMatmul.__new__(PreparedMatmul)
            for name in PreparedMatmul.__slots__:
                setattr(other, name, getattr(self, name))
            other.plan = plan.replace(order=_TABLELESS)
            other._call = _bound(self._backend, self.layout, other.plan, self._epilogue)
            other._simple = not (self._workspace_bytes or self._num_counters)
            self._replanned = other
        return self._replanned


def _cluster_grid(layout: Layout, plan: Plan) -> tuple[int, int]:
    """Rows and columns of cluster tiles, those of the exchanged product when it is that."""
    m, n = (layout.n, layout.m) if plan.swapped else (layout.m, layout.n)
    rows = plan.instance.tile_m * plan.cluster[0]
    columns = plan.instance.tile_n * plan.cluster[1]
    return -(-m // rows), -(-n // columns)


def _bound(backend: Backend, layout: Layout, plan: Plan, epilogue: Epilogue) -> MatmulCall:
    instance = plan.instance
    legal = layout.exchanged() if plan.swapped else layout
    legal = legal.for_loader(instance.loader, instance.a_major, instance.b_major)
    legal = legal.exchanged() if plan.swapped else legal
    return MatmulCall(
        backend.library,
        m=legal.m,
        n=legal.n,
        k=legal.k,
        batch=legal.batch,
        a_strides=legal.a,
        b_strides=legal.b,
        c_strides=legal.c,
        out_strides=legal.out,
        bias_stride=legal.bias,
        c_dtype=epilogue.c_dtype,
        bias_dtype=epilogue.bias_dtype,
        out_dtype=epilogue.out_dtype,
        activation=epilogue.activation,
        alpha=epilogue.alpha,
        beta=epilogue.beta,
        instance=instance.index,
        num_stages=plan.num_stages,
        cluster_m=plan.cluster[0],
        cluster_n=plan.cluster[1],
        order_kind=plan.order.code,
        order_param=plan.order.param,
        splits=plan.splits,
        grid=plan.grid,
        device=backend.index,
        swapped=int(plan.swapped),
        dynamic=int(plan.dynamic),
        splits_in_cluster=int(plan.splits_in_cluster),
    )
