"""Scheduling: a problem and a device in, a plan out. Imports neither torch nor a GPU."""

from tk.schedulers.attention import plan_attention
from tk.schedulers.attention_problem import AttentionInstance, AttentionProblem
from tk.schedulers.choose import Candidate, Choice, Rejected
from tk.schedulers.cost import Prediction
from tk.schedulers.device import Device
from tk.schedulers.gemm import plan_gemm
from tk.schedulers.instance import Instance
from tk.schedulers.l2 import L2Traffic, L2Wave, replay_grid, replay_l2
from tk.schedulers.order import Order
from tk.schedulers.pipeline import Pipeline, num_stages_for, pipeline_for
from tk.schedulers.plan import Plan
from tk.schedulers.problem import GemmProblem
from tk.schedulers.walk import Visit, persistent_walk

__all__ = [
    "AttentionInstance",
    "AttentionProblem",
    "Candidate",
    "Choice",
    "Device",
    "GemmProblem",
    "Instance",
    "L2Traffic",
    "L2Wave",
    "Order",
    "Pipeline",
    "Plan",
    "Prediction",
    "Rejected",
    "Visit",
    "num_stages_for",
    "persistent_walk",
    "pipeline_for",
    "plan_attention",
    "plan_gemm",
    "replay_grid",
    "replay_l2",
]
