"""Draws the explanation of a plan so that it fits the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console, RenderableType

from tk.reports.format import narrowed

if TYPE_CHECKING:
    from tk.schedulers import Plan

SPARE = ("L2/MB", "HBM/MB", "waves", "bound by", "stages")


def render(plan: Plan, console: Console) -> RenderableType:
    """``plan.explain()``, without some of its columns where the console is narrow."""
    return narrowed(plan.explain(), SPARE, "why not", console)
