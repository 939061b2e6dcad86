"""Plans of attention: the one a call uses, and the check of one that a caller brings."""

from __future__ import annotations

from functools import lru_cache

import torch

from tk import runtime
from tk.errors import wrong_type, wrong_value
from tk.ops.attention_arguments import OPERATION
from tk.schedulers import AttentionProblem, Plan, plan_attention

__all__ = ["check_plan", "plan_for"]


def plan_for(problem: AttentionProblem, backend: runtime.Backend) -> Plan:
    """The scheduler's plan. ValueError when this build has no kernel for the problem.

    What is planned once stays for the life of the process: its results are the same bits at every
    call.
    """
    return _planned(problem, backend.kind, backend.index)


@lru_cache(maxsize=4096)
def _planned(problem: AttentionProblem, kind: str, index: int) -> Plan:
    where = torch.device("cpu") if kind == "host" else torch.device("cuda", index)
    backend = runtime.backend(where)
    try:
        return plan_attention(problem, backend.device, backend.table("attention"))
    except ValueError as error:
        raise ValueError(f"{OPERATION}: {error}") from None


def check_plan(plan: Plan, problem: AttentionProblem, backend: runtime.Backend) -> None:
    """ValueError when a caller's plan is for another call, another instance table or a device with
    more shared memory than this one."""
    if not isinstance(plan, Plan):
        raise wrong_type(OPERATION, "plan", plan, "a tk.schedulers.Plan or None")
    plan.check()
    if plan.problem != problem:
        raise wrong_value(OPERATION, "plan", f"for {plan.problem}", f"for {problem}")
    instance, table = plan.instance, backend.table("attention")
    if not (instance.index < len(table) and table[instance.index] == instance):
        raise wrong_value(
            OPERATION,
            "plan",
            f"for instance {instance.index} ({instance.name}), which this build does not have",
            "made with the instances of this build",
        )
    memory = plan.num_stages * instance.bytes_per_stage + instance.fixed_bytes
    limit = backend.device.shared_memory_per_block
    if memory > limit:
        raise wrong_value(
            OPERATION,
            "plan",
            f"for {plan.num_stages} stages, {memory} bytes of shared memory",
            f"for at most {limit} bytes ({backend.device.name})",
        )
