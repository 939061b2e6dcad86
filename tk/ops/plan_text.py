"""The text form in which a plan passes through the dispatcher and compiled graphs."""

from __future__ import annotations

import json
from functools import lru_cache

from tk.errors import wrong_type
from tk.schedulers import Plan

__all__ = ["plan_from_text", "plan_to_text"]


def plan_to_text(operation: str, plan: Plan) -> str:
    """What of the plan decides the launch, as JSON. A compiler's trace can follow this."""
    if not isinstance(plan, Plan):
        raise wrong_type(operation, "plan", plan, "a tk.schedulers.Plan or None")
    return plan.text


@lru_cache(maxsize=64)
def plan_from_text(text: str | None) -> Plan | None:
    """The inverse of `plan_to_text`; None for None."""
    return None if text is None else Plan.from_dict(json.loads(text))
