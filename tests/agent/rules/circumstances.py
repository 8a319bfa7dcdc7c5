"""Circumstances into which every world of every rule can be put: how the answer has to follow.

Each makes another world of a world: another task, a card nobody knows, no price, a source that
tells less. What each rule says in them is written beside its other answers (``answers``).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from gputailor_agent.model.inventory import ContainerSpec, Outcome, Pod, TaskClass
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import UsageRow
from tests.agent.factories import DAY, HOUR, NOW, FakeCatalogue, device, node, use
from tests.agent.rules.advice_parts import host
from tests.agent.rules.world_parts import World

Change = Callable[[World], World]


def with_pods(world: World, change: Callable[[Pod], Pod]) -> World:
    """The world with other pods, in its runs as well."""
    new = {pod.uid: change(pod) for pod in world.pods}
    runs = world.options.get("runs", {"run-1": world.pods})
    return world.but(
        pods=list(new.values()),
        options={
            **world.options,
            "runs": {run: [new[pod.uid] for pod in members] for run, members in runs.items()},
        },
    )


def with_rows(world: World, change: Callable[[UsageRow], UsageRow]) -> World:
    """The world with other rows."""
    return world.but(usage=[change(row) for row in world.usage])


def without(*signals: str) -> Change:
    """A source that does not read these signals."""

    def less(row: UsageRow) -> UsageRow:
        told = {name: part for name, part in row.signals.items() if name not in signals}
        return msgspec.structs.replace(row, signals=told)

    return lambda world: with_rows(world, less)


def also(**levels: float) -> Change:
    """Every device does this as well, all the time."""

    def more(row: UsageRow) -> UsageRow:
        told = {name: use(level, row.allocated_seconds) for name, level in levels.items()}
        return msgspec.structs.replace(row, signals={**row.signals, **told})

    return lambda world: with_rows(world, more)


def rows_with(**told: Any) -> Change:
    """Every row with these fields."""
    return lambda world: with_rows(world, lambda row: msgspec.structs.replace(row, **told))


def work_with(**told: Any) -> Change:
    """The workload with these fields."""
    return lambda world: world.but(work=msgspec.structs.replace(world.work, **told))


def annotated(**annotations: str) -> Change:
    """The workload with an annotation of ours for each."""
    told = {f"gputailor.io/{name.replace('_', '-')}": text for name, text in annotations.items()}
    return lambda world: work_with(annotations={**world.work.annotations, **told})(world)


def means_only(world: World) -> World:
    """Sources without histograms."""

    def flat(row: UsageRow) -> UsageRow:
        told = {
            name: msgspec.structs.replace(part, histogram=None)
            for name, part in row.signals.items()
        }
        return msgspec.structs.replace(row, signals=told)

    return with_rows(world, flat)


def finished(outcome: Outcome, after: float = HOUR) -> Change:
    """Whatever runs has ended, so many seconds before now, in this way."""

    def change(world: World) -> World:
        over = with_pods(
            world,
            lambda pod: (
                pod
                if pod.finished is not None
                else msgspec.structs.replace(pod, finished=NOW - after, phase="Succeeded")
            ),
        )
        runs = over.options["runs"]
        return over.but(options={**over.options, "outcomes": dict.fromkeys(runs, outcome)})

    return change


def on(**fields: Any) -> Change:
    """On nodes with these fields."""

    def change(world: World) -> World:
        nodes = [
            msgspec.structs.replace(one, **fields) for one in world.options.get("nodes", (node(),))
        ]
        return world.but(options={**world.options, "nodes": nodes})

    return change


def of_devices(**fields: Any) -> Change:
    """With devices that tell this."""

    def change(world: World) -> World:
        uuids = sorted({row.key.gpu_uuid for row in world.usage})
        known = world.options.get("devices") or [device(uuid) for uuid in uuids]
        told = [msgspec.structs.replace(one, **fields) for one in known]
        return world.but(options={**world.options, "devices": told})

    return change


def asking(**fields: Any) -> Change:
    """With containers like this."""

    def told(one: ContainerSpec) -> ContainerSpec:
        return msgspec.structs.replace(one, **fields)

    return lambda world: with_pods(
        world,
        lambda pod: msgspec.structs.replace(pod, containers=tuple(map(told, pod.containers))),
    )


def priced(**prices: float) -> Change:
    """With a catalogue of these prices only."""
    return lambda world: world.but(catalogue=FakeCatalogue(prices))


def starved(world: World) -> World:
    """Its CPUs are at their limit and throttled, its disks slow."""
    told = {"cpu_of_limit": 0.97, "throttled_ratio": 0.5, "pressure": {"io/some": 0.5}}
    if world.host is not None:
        return world.but(host=msgspec.structs.replace(world.host, **told))
    return world.but(host=host(**told))


CIRCUMSTANCES: Final[Mapping[str, Change]] = {
    "a notebook": work_with(kind="Notebook", task_class=TaskClass.NOTEBOOK),
    "a service": work_with(kind="Deployment", task_class=TaskClass.INFERENCE),
    "a batch": work_with(kind="Job", task_class=TaskClass.BATCH),
    "an unknown task": work_with(task_class=TaskClass.UNKNOWN),
    "a pod of its own": work_with(kind="Pod"),
    "on every node": work_with(kind="DaemonSet"),
    "a cron job": work_with(kind="CronJob"),
    "JAX": work_with(framework="jax", framework_sure=True),
    "TensorFlow": work_with(framework="tensorflow"),
    "vLLM": work_with(framework="vllm", preallocates=True, preallocates_evidence="vllm"),
    "no framework": work_with(framework=""),
    "bf16": work_with(precision="bf16", precision_evidence="--bf16"),
    "opted out": annotated(ignore="all", reason="demo"),
    "opted out for a while": annotated(ignore_until="2099-01-01"),
    "checkpoints": asking(args=("--resume", "--output_dir=/out")),
    "compiled": asking(args=("--torch_compile", "--gradient_checkpointing")),
    "ended": finished(Outcome.SUCCEEDED),
    "ended long ago": finished(Outcome.SUCCEEDED, after=3 * HOUR),
    "failed": finished(Outcome.FAILED),
    "kernel only": without("sm", "tensor", "dram", "fp32", "fp64", "fp16", "occupancy"),
    "no bandwidth": without("dram"),
    "no tensor": without("tensor"),
    "no video": without("encoder", "decoder"),
    "decoding": also(decoder=0.3),
    "FP64": also(fp64=0.2),
    "tensor cores": also(tensor=0.4),
    "busy": also(kernel=1.0, sm=0.9, dram=0.6),
    "means only": means_only,
    "nothing known of memory": rows_with(memory_peak_bytes=None, memory_total_bytes=None),
    "mean memory": rows_with(memory_peak_kind="mean"),
    "sampled memory": rows_with(memory_peak_kind="sampled"),
    "full memory": rows_with(memory_peak_bytes=79 * 1024**3),
    "no power": rows_with(energy_joules=None),
    "busy links": rows_with(link_bytes={"pcie/rx": 2e13, "nvlink/tx": 1e15}),
    "half a GPU": rows_with(share=0.5),
    "no seconds counted": rows_with(conditions={}),
    "starved": starved,
    "no price": priced(T4=0.4),
    "own price": priced(A100=3.0, L4=0.5, A40=1.5, T4=0.2, H100=9.0),
    "a card nobody knows": lambda world: on(gpu_product="Foo")(of_devices(model="Foo")(world)),
    "an H100": lambda world: on(gpu_product="H100")(of_devices(model="H100")(world)),
    "a T4": lambda world: on(gpu_product="T4")(of_devices(model="T4")(world)),
    "a slice": of_devices(mig_profile="1g.10gb", parent_uuid="GPU-parent"),
    "four replicas of a device": on(sharing_replicas=4),
    "on spot nodes": on(capacity_type="spot"),
    "on demand": on(capacity_type="on-demand", instance_type="p4d.24xlarge"),
    "a cordoned node": on(schedulable=False),
    "one week": lambda world: world.but(
        options={**world.options, "window": Window(start=NOW - 7 * DAY, end=NOW)}
    ),
    "looked at since yesterday": lambda world: world.but(
        options={**world.options, "measured_since": float(NOW - DAY)}
    ),
}
