"""Plans of matrix products: the one a call uses, and the check of one that a caller brings."""

from __future__ import annotations

from functools import lru_cache

import torch

from tk import runtime, tuning
from tk.errors import wrong_type, wrong_value
from tk.ops.arguments import DTYPE_NAMES
from tk.ops.matmul_arguments import OPERATION
from tk.ops.matmul_layout import Layout, folded
from tk.schedulers import GemmProblem, Plan, plan_gemm
from tk.schedulers.problem import exchanged_majors

__all__ = ["check_plan", "forget_plans", "plan_for"]


def plan_for(
    layout: Layout, dtype: torch.dtype, out_dtype: torch.dtype, backend: runtime.Backend
) -> tuple[Plan, Layout]:
    """The scheduler's plan and the layout it is for: the batch folded into rows where possible.

    A winner that was measured before goes first (`tk.tuning`). What is planned once stays for the
    life of the process: its results are the same bits at every call.
    """
    return _chosen(layout, dtype, out_dtype, backend.kind, backend.index)


@lru_cache(maxsize=4096)
def _chosen(
    layout: Layout, dtype: torch.dtype, out_dtype: torch.dtype, kind: str, index: int
) -> tuple[Plan, Layout]:
    chosen = folded(layout)
    return _planned(chosen.problem(dtype, out_dtype), kind, index), chosen


@lru_cache(maxsize=4096)
def _planned(problem: GemmProblem, kind: str, index: int) -> Plan:
    where = torch.device("cpu") if kind == "host" else torch.device("cuda", index)
    backend = runtime.backend(where)
    tuned = tuning.tuned_plan(problem, backend)
    if tuned is not None:
        return tuned
    return plan_gemm(problem, backend.device, backend.instances)


def forget_plans() -> None:
    """Forgets what was planned, e.g. after tuning. Calls that were prepared keep their plans."""
    _chosen.cache_clear()
    _planned.cache_clear()


def check_plan(
    plan: Plan,
    layout: Layout,
    dtype: torch.dtype,
    out_dtype: torch.dtype,
    backend: runtime.Backend,
) -> Layout:
    """The layout that a caller's plan is for. ValueError when it is for another product, another
    instance table or a device with more shared memory than this one."""
    if not isinstance(plan, Plan):
        raise wrong_type(OPERATION, "plan", plan, "a tk.schedulers.Plan or None")
    plan.check()
    problem = plan.problem
    if not isinstance(problem, GemmProblem):
        raise wrong_value(OPERATION, "plan", f"for {problem}", "for a matrix product")
    sizes = (problem.batch, problem.m, problem.n, problem.k)
    layouts = {(each.batch, each.m, each.n, each.k): each for each in (layout, folded(layout))}
    found = layouts.get(sizes)
    if found is None:
        wanted = " or ".join(str(each) for each in layouts)
        raise wrong_value(OPERATION, "plan", f"for (batch, M, N, K) = {sizes}", f"for {wanted}")
    planned = f"for {problem.dtype} to {problem.out_dtype}"
    wanted = f"for {DTYPE_NAMES[dtype]} to {DTYPE_NAMES[out_dtype]}"
    if planned != wanted:
        raise wrong_value(OPERATION, "plan", planned, wanted)
    instance = plan.instance
    table = backend.instances
    if not (0 <= instance.index < len(table) and table[instance.index] == instance):
        raise wrong_value(
            OPERATION,
            "plan",
            f"for instance {instance.index} ({instance.name}), which this build does not have",
            "made with the instances of this build",
        )
    if instance.loader == "tma":
        majors = instance.a_major, instance.b_major
        a_major, b_major = exchanged_majors(*majors) if plan.swapped else majors
        _check_major("a", a_major, found.a_majors())
        _check_major("b", b_major, found.b_majors())
    memory = plan.num_stages * instance.bytes_per_stage + instance.fixed_bytes
    memory += plan.choice.parts_received * instance.bytes_per_part
    limit = backend.device.shared_memory_per_block
    if memory > limit:
        raise wrong_value(
            OPERATION,
            "plan",
            f"for {plan.num_stages} stages, {memory} bytes of shared memory",
            f"for at most {limit} bytes ({backend.device.name})",
        )
    return found


def _check_major(operand: str, major: str, legal: tuple[str, ...]) -> None:
    if major in legal:
        return
    was = f"for TMA loads of {operand} along {major.upper()}"
    allowed = " or ".join(f"TMA along {each.upper()}" for each in legal) or "the gather loader"
    raise wrong_value(
        OPERATION, "plan", was, f"for {allowed}, by {operand}'s strides and the operands' addresses"
    )
