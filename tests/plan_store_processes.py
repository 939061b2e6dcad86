"""Eight processes that ask for and store one plan 200 times each, one of them killed on the way.

Run as a script with a folder and what is the matter with it; the processes are forked from one that
has imported everything, so that they really start together. Exit code 0 when all was well.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from dataclasses import replace
from pathlib import Path

from instance_table import matmul_instances

from tk.schedulers import Device, GemmProblem, Plan, plan_gemm
from tk.schedulers.store import Measured, PlanStore, StoreWarning, TuningEnvironment

PROCESSES, TIMES = 8, 200
NOBODY = 65534
INSTANCES = matmul_instances()
H200 = Device.named("h200")
PROBLEM = GemmProblem(512, 4096, 4096)
ENVIRONMENT = TuningEnvironment.of(
    H200, INSTANCES, library="1.0", driver="580.65.06", cuda="13.0", torch="2.9"
)


def ask(store: PlanStore, problem: GemmProblem, tuned: Plan) -> Plan:
    """As a tuner does: the stored plan, or one that is measured, stored, and used in any case."""
    found = store.get(ENVIRONMENT, problem, H200, INSTANCES)
    store.put(ENVIRONMENT, problem, tuned.choice, Measured.now(1e-4, 2e-4, 3))
    return found or tuned


def work(number: int, root: Path, trouble: str) -> None:
    store = PlanStore(root)
    model = plan_gemm(PROBLEM, H200, INSTANCES)
    tuned = model.replace(splits=2 if model.splits == 1 else 1)
    own = replace(PROBLEM, m=1024 + number)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(TIMES):
            assert ask(store, PROBLEM, tuned).choice == tuned.choice
        ask(store, own, plan_gemm(own, H200, INSTANCES))
    said = [str(each.message) for each in caught if each.category is StoreWarning]
    assert len(said) == len(caught) == (1 if trouble else 0), said
    assert all(str(root) in text for text in said)


def fork(number: int, root: Path, trouble: str) -> int:
    child = os.fork()
    if child:
        return child
    try:
        work(number, root, trouble)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def main() -> int:
    root, trouble, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    if trouble == "read-only" and os.geteuid() == 0:  # whom no permission stops
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    if trouble == "limited":  # a write ends in the middle
        resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
    chance = random.Random(seed)
    children = [fork(number, root, trouble) for number in range(PROCESSES)]
    time.sleep(chance.random() * 0.4)
    victim = chance.choice(children)
    os.kill(victim, signal.SIGKILL)
    codes = {child: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children}
    del codes[victim]
    return 0 if set(codes.values()) == {0} else 1


if __name__ == "__main__":
    sys.exit(main())
