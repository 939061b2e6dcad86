"""The rotation made ready, for one set of shapes, strides and options, and its launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from tk import runtime
from tk._binding import RotaryCall
from tk.errors import describe, wrong_value
from tk.ops.arguments import DTYPE_CODES, DTYPE_NAMES
from tk.ops.overlap import extent, overlaps_itself, share_memory
from tk.ops.rotary_arguments import OPERATION, Arguments, Checked, new_output
from tk.ops.scratch import stream_of
from tk.schedulers.rotary import RotaryPlan, RotaryWork, plan_rotary

__all__ = ["PreparedRotary"]

_LARGEST = (1 << 31) - 128  # vectors of a head and tasks are numbered by ints in the kernel
_MOST_DISTANCES = 256


class PreparedRotary:
    """The rotation ready to run at any addresses that are multiples of 16 bytes, or any at all
    (`aligned`). `plan` is None when there is nothing to rotate.

    `allocate()` makes the rotated q and k, `launch` takes addresses, 0 for what is not given;
    `refuse_overlap` is for a call in place.
    """

    __slots__ = (
        "_allocate_k",
        "_allocate_q",
        "_apart",
        "_backend",
        "_call",
        "_stream",
        "checked",
        "last_use",
        "plan",
    )

    def __init__(self, arguments: Arguments, checked: Checked, aligned: bool) -> None:
        self.last_use = 0
        self.checked = checked
        self._apart: dict[tuple[str, str, int], bool] = {}
        self._backend = runtime.backend(arguments.q.device)
        self._stream = stream_of(self._backend)
        self._allocate_q = _allocator(arguments.q)
        self._allocate_k = None if arguments.k is None else _allocator(arguments.k)
        if arguments.inplace:
            _refuse_self_overlap(arguments)
        sides = [_Side.of(x, arguments.inplace) for x in (arguments.q, arguments.k)]
        heads = sides[0].heads, sides[1].heads
        self.plan: RotaryPlan | None = None
        self._call: RotaryCall | None = None
        if 0 in (checked.batch, checked.rows) or heads == (0, 0):
            return
        _check_sizes(arguments, checked)
        work = RotaryWork(
            tokens=checked.batch * checked.rows,
            heads=heads,
            head_dim=checked.head_dim,
            rotary_dim=checked.rotary_dim,
            dtype=DTYPE_NAMES[arguments.q.dtype],
            vectors={
                width: aligned and _by_vectors(arguments, checked, sides, width) for width in (4, 8)
            },
            heads_inside=sides[0].heads_inside if heads[0] else sides[1].heads_inside,
            in_place=arguments.inplace,
        )
        on_host = self._backend.kind == "host"
        table = self._backend.table("rotary")
        self.plan = plan_rotary(work, self._backend.device.num_sms, table, on_host=on_host)
        self._call = self._bound(arguments, sides, self.plan)

    def _bound(self, arguments: Arguments, sides: Sequence[_Side], plan: RotaryPlan) -> RotaryCall:
        checked, positions = self.checked, arguments.positions
        q, k = sides
        return RotaryCall(
            self._backend.library,
            batch=checked.batch,
            rows=checked.rows,
            head_dim=checked.head_dim,
            rotary_dim=checked.rotary_dim,
            table_rows=arguments.cos.shape[0],
            q_heads=q.heads,
            k_heads=k.heads,
            q_strides=q.strides,
            q_out_strides=q.out_strides,
            k_strides=k.strides,
            k_out_strides=k.out_strides,
            cos_strides=arguments.cos.stride(),
            sin_strides=arguments.sin.stride(),
            table_dtype=DTYPE_CODES[arguments.cos.dtype],
            position_bytes=0 if positions is None else positions.element_size(),
            position_strides=(0, 0) if positions is None else _position_strides(positions),
            offset=arguments.offset,
            sequences=0 if arguments.cu_seqlens is None else arguments.cu_seqlens.shape[0] - 1,
            interleaved=arguments.interleaved,
            inverse=arguments.inverse,
            in_place=arguments.inplace,
            instance=plan.instance.index,
            heads_per_task=plan.heads_per_task,
            groups_first=plan.groups_first,
            grid=plan.grid,
            device=self._backend.index,
        )

    def allocate(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Memory for both results."""
        return self._allocate_q(), None if self._allocate_k is None else self._allocate_k()

    def launch(
        self,
        q: int,
        k: int,
        cos: int,
        sin: int,
        positions: int,
        cu_seqlens: int,
        q_out: int,
        k_out: int,
    ) -> None:
        """Runs on the current stream of its device."""
        assert self._call is not None
        stream = self._stream(self._backend.index)
        self._call(q, k, cos, sin, positions, cu_seqlens, q_out, k_out, stream)

    def refuse_overlap(self, arguments: Arguments) -> None:
        """ValueError when q or k, which are written, share memory with each other or with what is
        read."""
        given = list(arguments.tensors())
        for number, (name, written) in enumerate(given[: 1 if arguments.k is None else 2]):
            for other, tensor in given[number + 1 :]:
                if not self._lie_apart(name, written, other, tensor):
                    was = f"in memory of {other}, with inplace"
                    raise wrong_value(OPERATION, name, was, f"apart from {other}")

    def _lie_apart(self, name: str, first: torch.Tensor, other: str, second: torch.Tensor) -> bool:
        """Whether no byte is in both: by their ranges, and exactly, once for a distance, where
        those cross (q and k of one fused projection)."""
        size, other_size = first.element_size(), second.element_size()
        distance = second.data_ptr() - first.data_ptr()
        if (
            extent(first.shape, first.stride()) * size <= distance
            or extent(second.shape, second.stride()) * other_size <= -distance
        ):
            return True
        key = name, other, distance
        if key not in self._apart:
            if len(self._apart) >= _MOST_DISTANCES:
                self._apart.clear()
            self._apart[key] = not share_memory(
                (0, first.shape, first.stride(), size),
                (distance, second.shape, second.stride(), other_size),
            )
        return self._apart[key]


def _allocator(x: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Makes what `new_output` of x does, its shape worked out once."""
    like = new_output(x, torch.device("meta"))
    turned = not like.is_contiguous()
    shape = tuple(like.transpose(1, 2).shape if turned else like.shape)
    made: Callable[[], torch.Tensor] = partial(torch.empty, shape, dtype=x.dtype, device=x.device)
    return (lambda: made().transpose(1, 2)) if turned else made


class _Side:
    """q or k as the C interface takes it: heads, and strides of batch, head, row and column."""

    def __init__(self, heads: int, strides: Sequence[int], out_strides: Sequence[int]) -> None:
        self.heads = heads
        self.strides = tuple(strides)
        self.out_strides = tuple(out_strides)

    @staticmethod
    def of(x: torch.Tensor | None, inplace: bool) -> _Side:
        if x is None:
            return _Side(0, (0, 0, 0, 1), (0, 0, 0, 1))
        out = x if inplace else new_output(x, torch.device("meta"))
        return _Side(x.shape[1], _strides(x), _strides(out))

    @property
    def heads_inside(self) -> bool:
        return self.strides[1] < self.strides[2]


def _strides(x: torch.Tensor) -> tuple[int, ...]:
    """Of batch, head, row and column; those of axes of size 1 mean nothing, and are 0."""
    strides = [0 if n == 1 else s for n, s in zip(x.shape, x.stride(), strict=True)]
    if x.dim() == 3:
        strides = [0, strides[1], strides[0], strides[2]]
    return (*strides[:3], x.stride(-1))


def _position_strides(positions: torch.Tensor) -> tuple[int, int]:
    """Of batch and row."""
    if positions.dim() == 1:
        return 0, positions.stride(0)
    return (0 if positions.shape[0] == 1 else positions.stride(0)), positions.stride(1)


def _by_vectors(arguments: Arguments, checked: Checked, sides: Sequence[_Side], width: int) -> bool:
    """Whether everything can be moved by vectors of so many elements, at aligned addresses."""
    if checked.rotary_dim % (2 * width) or checked.head_dim % width:
        return False
    for side in sides:
        for strides in (side.strides, side.out_strides):
            if side.heads and (strides[3] != 1 or any(s % width for s in strides[:3])):
                return False
    tables = (arguments.cos, arguments.sin)
    return all(t.stride(1) == 1 and t.stride(0) % (width // 2) == 0 for t in tables)


def _check_sizes(arguments: Arguments, checked: Checked) -> None:
    """ValueError for more elements than the kernel counts."""
    pairs = checked.batch * checked.rows * checked.head_dim
    heads = max(x.shape[1] for x in (arguments.q, arguments.k) if x is not None)
    if pairs > _LARGEST or heads > 65536 or checked.head_dim > 65536:
        allowed = f"of at most {_LARGEST} elements a head, 65536 heads and columns"
        raise wrong_value(OPERATION, "q", describe(arguments.q), allowed)


def _refuse_self_overlap(arguments: Arguments) -> None:
    for name, tensor in (("q", arguments.q), ("k", arguments.k)):
        if tensor is not None and overlaps_itself(tensor.shape, tensor.stride()):
            raise wrong_value(
                OPERATION,
                name,
                f"of strides {tuple(tensor.stride())}, by which elements are one, with inplace",
                "of strides that give each element its own",
            )
