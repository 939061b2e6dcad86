"""Attention as a family: its candidates, what makes one illegal, and `plan_attention`.

A plan's order is over tasks: rows are the heads of all batches (key heads with `pack_heads`),
columns query tiles. "row" does one head after the other, "grouped_m(n)" n heads at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tk.schedulers.attention_cost import (
    AttentionGroup,
    key_tiles_of,
    num_stages_for,
    task_grid,
)
from tk.schedulers.attention_problem import MAX_LENGTH, AttentionInstance, AttentionProblem
from tk.schedulers.choose import Choice, Group, Rejected, register
from tk.schedulers.device import Device
from tk.schedulers.plan import Plan, make_plan
from tk.schedulers.problem import MAX_SIZE
from tk.schedulers.walk import ceil_div

_MAX_INDEX = (1 << 31) - 1  # tasks are numbered in 32 bits
_MAX_SPLITS = 128
_FEW_TILES = 8  # key tiles
_FEWEST_TILES_OF_A_SPLIT = 2  # key tiles; a split of less is mostly its own overhead
_NOT_HERE = ("swapped", "splits_in_cluster")


class AttentionProspects:
    """All groups of a problem."""

    def __init__(
        self, problem: AttentionProblem, device: Device, instances: Sequence[AttentionInstance]
    ) -> None:
        self.rejected: list[Rejected] = []
        self.groups: list[AttentionGroup] = []
        usable = []
        for instance in instances:
            reason = instance_reason(problem, device, instance)
            if reason is None:
                usable.append(instance)
            else:
                self.rejected.append(Rejected(instance.name, reason))
        for instance in _narrowest(problem, usable, self.rejected):
            few_queries = problem.typical[0] < instance.tile_q  # rows of one head leave some empty
            packings = (False, True) if few_queries and _may_pack(problem) else (False,)
            for pack_heads in packings:
                self._add(problem, device, instance, pack_heads)
        self.bounds = [group.floor() for group in self.groups]
        """Seconds that no order of a group can beat."""

    def _add(
        self,
        problem: AttentionProblem,
        device: Device,
        instance: AttentionInstance,
        pack_heads: bool,
    ) -> None:
        rows, columns = task_grid(problem, instance, pack_heads)
        tasks = rows * columns
        if tasks > _MAX_INDEX:
            self.rejected.append(Rejected(instance.name, f"{tasks} tasks do not fit in 32 bits"))
            return
        uneven = problem.uneven and columns > 1
        key_tiles = ceil_div(problem.typical[1], instance.tile_k)
        for splits in split_counts(tasks, device.num_sms, key_tiles):
            # Measured: a queue wins by 1 to 2% also where all items are alike. Of equals the first
            # is chosen.
            draws = splits == 1 and tasks > device.num_sms
            for dynamic in (True, False) if draws else (False,):
                self.groups.append(
                    AttentionGroup(
                        problem,
                        device,
                        instance,
                        num_stages_for(instance, device),
                        splits,
                        min(tasks * splits, device.num_sms),
                        dynamic=dynamic,
                        longest_first=uneven and problem.window_right >= 0,
                        turns=takes_turns(instance, key_tiles),
                        pack_heads=pack_heads,
                    )
                )

    def least(self) -> int | None:
        """The place of the group with the least bound; None when there is no group."""
        return min(range(len(self.bounds)), key=self.bounds.__getitem__, default=None)

    def within(self, seconds: float) -> list[int]:
        """The places of all groups whose bounds are at most that."""
        return [place for place, bound in enumerate(self.bounds) if bound <= seconds]

    def group(self, index: int) -> Group:
        """The group at that place."""
        return self.groups[index]


def takes_turns(instance: AttentionInstance, key_tiles: int) -> bool:
    """Whether consumers had better multiply in turns. Measured: 1 to 3% faster with short key
    tiles, where more of an iteration is other than products, or few; else up to 2% slower."""
    if instance.consumer_warpgroups < 2:
        return False
    return instance.tile_k < 128 or key_tiles <= _FEW_TILES


def split_counts(tasks: int, at_once: int, key_tiles: int) -> list[int]:
    """Splits of the keys worth trying: those that fill one or a few rounds, and small ones."""
    most = min(max(key_tiles // _FEWEST_TILES_OF_A_SPLIT, 1), _MAX_SPLITS)
    if tasks >= 4 * at_once or most < 2:
        return [1]
    filling = {rounds * at_once // tasks for rounds in (1, 2, 3, 4)}
    small = {s for s in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64) if s * tasks <= 2 * at_once}
    return sorted(s for s in {1} | filling | small if 1 <= s <= most)


def _may_pack(problem: AttentionProblem) -> bool:
    few = problem.queries * problem.group <= MAX_LENGTH
    return problem.group > 1 and few


def _narrowest(
    problem: AttentionProblem, usable: list[AttentionInstance], rejected: list[Rejected]
) -> list[AttentionInstance]:
    """Without those whose dimensions are larger than need be, and those that do more to scores."""
    if not usable:
        return []
    plain = [i for i in usable if i.scores == problem.scores] or usable
    least = min((i.head_dim, i.value_dim) for i in plain)
    kept = [i for i in plain if (i.head_dim, i.value_dim) == least]
    for instance in usable:
        if instance not in kept:
            reason = f"{kept[0].name} needs less for these dimensions and scores"
            rejected.append(Rejected(instance.name, reason))
    return kept


def problem_reason(problem: AttentionProblem) -> str | None:
    """Why nothing can compute the problem, or None."""
    for name in ("batch", "heads", "kv_heads", "queries", "keys", "head_dim", "value_dim"):
        value = getattr(problem, name)
        most = MAX_LENGTH if name in ("queries", "keys") else MAX_SIZE
        if value > most:
            return f"{name} is {value}; at most {most}"
        if value == 0:
            return f"{name} is 0: there is nothing to compute and no plan"
    return None


def instance_reason(
    problem: AttentionProblem, device: Device, instance: AttentionInstance
) -> str | None:
    """Why an instance cannot run the problem, or None."""
    if instance.dtype != problem.dtype:
        return f"its operands are {instance.dtype}, the problem's {problem.dtype}"
    if instance.dtype not in device.peak_flops:
        return f"{device.name} has no rate for {instance.dtype}"
    for name in ("head_dim", "value_dim"):
        has, needs = getattr(instance, name), getattr(problem, name)
        if needs > has:
            return f"its {name} is {has}, the problem's {needs}"
    if problem.scores == "general" and instance.scores != "general":
        return "it has masks alone; the problem has other changes of scores"
    try:
        num_stages_for(instance, device)
    except ValueError as error:
        return str(error)
    return None


class AttentionFamily:
    """Attention, for the registry of families."""

    name = "attention"

    def groups(
        self, problem: AttentionProblem, device: Device, instances: Sequence[AttentionInstance]
    ) -> tuple[list[Group], list[Rejected]]:
        """Instances x packing x splits x ways to take tasks."""
        prospects = self.prospects(problem, device, instances)
        return list(prospects.groups), prospects.rejected

    def prospects(
        self, problem: AttentionProblem, device: Device, instances: Sequence[AttentionInstance]
    ) -> AttentionProspects:
        """The same with their bounds. ValueError when there is nothing to compute."""
        reason = problem_reason(problem)
        if reason is not None:
            raise ValueError(f"{problem}: {reason}")
        return AttentionProspects(problem, device, instances)

    def illegal(self, problem: AttentionProblem, device: Device, choice: Choice) -> str | None:
        """Why the choice cannot run, in one line, or None when it can."""
        instance = choice.instance
        if not isinstance(instance, AttentionInstance):
            return f"instance {instance.name} is none of attention's"
        reason = problem_reason(problem) or instance_reason(problem, device, instance)
        if reason is not None:
            return f"instance {instance.name}: {reason}"
        foreign = [name for name in _NOT_HERE if getattr(choice, name)]
        if foreign or choice.cluster != (1, 1):
            return f"{foreign[0] if foreign else 'a cluster'} is for other kernels"
        deepest = num_stages_for(instance, device)
        if not instance.min_stages <= choice.num_stages <= deepest:
            return (
                f"num_stages is {choice.num_stages}; {instance.name} takes {instance.min_stages}"
                f" to {deepest}"
            )
        if choice.turns and instance.consumer_warpgroups < 2:
            return f"turns need two consumer warpgroups; {instance.name} has one"
        if choice.pack_heads and not _may_pack(problem):
            return f"pack_heads needs heads that share a key head, and at most {MAX_LENGTH} rows"
        if choice.order.needs_table:
            return f"order {choice.order} is by a table; attention takes closed forms"
        return _counts_reason(problem, choice)

    def default_grid(self, problem: AttentionProblem, device: Device, choice: Choice) -> int:
        """A block a multiprocessor, or as many as there are tasks."""
        rows, columns = task_grid(problem, choice.instance, choice.pack_heads)
        return min(rows * columns * choice.splits, device.num_sms)

    def num_stages(self, device: Device, choice: Choice) -> int:
        """The deepest ring that fits."""
        return num_stages_for(choice.instance, device)

    def group_of(self, problem: AttentionProblem, device: Device, choice: Choice) -> Group:
        """The group that a choice belongs to."""
        return AttentionGroup(
            problem,
            device,
            choice.instance,
            choice.num_stages,
            choice.splits,
            choice.grid,
            choice.dynamic,
            choice.longest_first,
            choice.turns,
            choice.pack_heads,
        )

    def problem_from_dict(self, record: dict[str, Any]) -> AttentionProblem:
        """A problem from its plain values."""
        return AttentionProblem.from_dict(record)

    def instance_from_dict(self, record: dict[str, Any]) -> AttentionInstance:
        """A line of the instance table from its plain values."""
        return AttentionInstance.from_dict(record)


def _counts_reason(problem: AttentionProblem, choice: Choice) -> str | None:
    most_splits = max(key_tiles_of(problem, choice.instance), 1)
    if choice.splits > most_splits:
        return f"splits is {choice.splits}; the keys have {most_splits} tiles that can be dealt"
    if choice.splits > 1 and choice.dynamic:
        return "splits need a static grid, not a dynamic one"
    rows, columns = task_grid(problem, choice.instance, choice.pack_heads)
    items = rows * columns * choice.splits
    if items > _MAX_INDEX:
        return f"{items} tasks do not fit in 32 bits"
    if choice.grid > items:
        return f"grid is {choice.grid}; there are {items} tasks"
    return None


register(AttentionFamily())


def plan_attention(
    problem: AttentionProblem,
    device: Device,
    instances: Sequence[AttentionInstance],
    *,
    keep: int = 8,
) -> Plan:
    """The plan with the shortest predicted time, and up to `keep` runners-up.

    ValueError names what is wrong when there is nothing to compute or no instance fits.
    """
    return make_plan(problem, device, instances, keep=keep)
