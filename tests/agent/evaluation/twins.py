"""Small made-up twins of the real data: the same columns and shapes, other names, a few rows."""

import gzip
import json
from pathlib import Path

STEP = 900
START = 1_735_689_600
TRACE = "usage/slurm_gpu_levels_15min.csv.gz"
HEADER = "ts,node,type,state,jobs,alloc,gpus,levels,users"


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def trace(*levels: str, node="n1", users="a", start=START, alloc=None) -> list[str]:
    """Lines of one node: one text of digits per GPU, one digit per sample; ``users`` likewise.

    ``users`` may be one letter for all samples or a letter per sample.
    """
    length = len(levels[0])
    names = users if len(users) == length else users * length
    held = len(levels) if alloc is None else alloc
    return [
        f"{start + at * STEP},{node},X9,mix,1,{held},{len(levels)},"
        f"{''.join(gpu[at] for gpu in levels)},{names[at]}"
        for at in range(length)
    ]


def week_of_work(node: str, seed: int, days=70) -> list[str]:
    """A node whose GPU is idle from each start for a while, and pauses now and then."""
    digits, users = [], []
    for day in range(days):
        length = 96
        idle = 60 if (day + seed) % 3 else 8  # most starts stay idle for long, some do not
        pauses = "3" * 6 + "0" * (2 + (day * 7 + seed) % 5) + "3" * 6
        text = ("0" * idle + pauses * 10)[:length]
        digits.append(text)
        users.append("ab"[day % 2] * length)
    return trace("".join(digits), node=node, users="".join(users))


def idle_trace(folder: Path) -> Path:
    lines = [HEADER]
    for seed in range(6):
        lines += week_of_work(f"n{seed}", seed)
    return write(folder, TRACE, "\n".join(lines) + "\n")


def configurations() -> list[tuple[str, float]]:
    """Names and utilisation (percent) of jobs."""
    return [(f"Net{number}", 4.0 + 7.0 * number) for number in range(14)]


def profiles(folder: Path) -> None:
    """Jobs alone, with and without mixed precision, and pairs that slow down by their sum."""
    alone = ["model,dataset,batchsize,amp,speed,gpu_util,gmem_util,gmem,label"]
    for name, busy in configurations():
        alone.append(f"{name},D,32,0,100.0,{busy},{busy / 2},2000.0,0")
        alone.append(f"{name},D,32,1,{100 + busy},{busy},{busy / 2},1500.0,0")
    write(folder, "profiles/single_job_utilisation.csv", "\n".join(alone) + "\n")
    pairs = [
        (
            ",model1,dataset1,gpu_num1,batchsize1,amp1,speed1,"
            "model2,dataset2,gpu_num2,batchsize2,amp2,speed2,gpu_util,gmem_util,gmem"
        )
    ]
    jobs = [(name, busy, amp) for name, busy in configurations() for amp in "01"]
    for place, (name, busy, amp) in enumerate(jobs):
        for other, theirs, precision in jobs[place:]:
            speed = min(1.0, 1.0 / (1 + busy * theirs / 10_000))
            pairs.append(
                f"{len(pairs)},{name},D,1,32,{amp},{speed:.3f},"
                f"{other},D,1,32,{precision},{speed:.3f},50,20,4000"
            )
    write(folder, "profiles/colocation_pairs.csv", "\n".join(pairs) + "\n")


def scaling(folder: Path) -> None:
    """Two applications whose step has a part that does not scale."""
    for job, sync in (("netA", 0.02), ("netB", 0.05)):
        lines = ["local_bsz,step_time,sync_time,num_nodes,num_replicas"]
        for gpus in (1, 2, 4, 8):
            waiting = sync * (gpus > 1)
            lines += [f"{size},{0.1 + waiting},{waiting},1,{gpus}" for size in (16, 32)]
        write(folder, f"profiles/scaling/sia_{job}_scalability_lab.csv", "\n".join(lines) + "\n")
        placements = "placement,local_bsz,step_time,sync_time\n3,16,0.13,0.02\n12,16,0.14,0.03\n"
        write(folder, f"profiles/scaling/sia_{job}_placements_lab.csv", placements)


def throughputs(folder: Path) -> None:
    """Four families on two cards of the catalogue, and one card that nobody knows."""
    families = {"Alpha": 1.2, "Beta": 1.5, "Gamma": 2.5, "Delta": 1.0}
    table: dict[str, dict[str, dict[str, float]]] = {"v100": {}, "p100": {}, "zx80": {}}
    for name, slower in families.items():
        for size in (16, 32):
            job = f"('{name} (batch size {size})', 1)"
            table["v100"][job] = {"null": 10.0}
            table["p100"][job] = {"null": 10.0 / slower}
            table["zx80"][job] = {"null": 1.0}
    write(folder, "profiles/throughput_by_gpu.json.gz", json.dumps(table))


def requests(folder: Path) -> None:
    jobs = "timestamp,duration,num_gpus,gpu_time,cluster\n" + "".join(
        f"2017-10-09 07:00:00,{seconds},2,{seconds * 2},x\n" for seconds in (30, 600, 7200, 36_000)
    )
    write(folder, "requests/philly_jobs.csv.gz", jobs)
    pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n" + "".join(
        f"p{number},{cpu},1024,{gpus},{milli}\n"
        for number, (cpu, gpus, milli) in enumerate(
            [(1000, 0, 0), (4000, 1, 500), (40_000, 1, 1000), (8000, 8, 1000)]
        )
    )
    write(folder, "requests/openb_pod_list_small.csv", pods)
    nodes = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,65536,0,\nn1,64000,131072,8,Q1\n"
    write(folder, "requests/openb_node_list_all_node.csv", nodes)


def everything(folder: Path) -> Path:
    """The whole layout."""
    for make in (idle_trace, profiles, scaling, throughputs, requests):
        make(folder)
    return folder
