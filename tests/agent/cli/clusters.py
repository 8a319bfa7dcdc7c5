"""Small inputs for whole commands: a log, manifests, exporter pages over two days."""

import json
from pathlib import Path

HOUR = 3600
START = 1_764_374_400  # 2025-11-29 00:00 UTC

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: NAME, namespace: team}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: pytorch/pytorch:2.4
        resources: {limits: {nvidia.com/gpu: 1}}
"""


def manifest(tmp_path: Path, *names: str) -> Path:
    path = tmp_path / "jobs.yaml"
    path.write_text("---\n".join(JOB.replace("NAME", name) for name in names), encoding="utf-8")
    return path


def log(tmp_path: Path, name="run.csv", seconds=120) -> Path:
    lines = ["timestamp, index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB]"]
    lines += [
        f"2025/12/01 10:{s // 60:02d}:{s % 60:02d}.000, 0, NVIDIA L4, 60 %, 9000 MiB, 23034 MiB"
        for s in range(seconds)
    ]
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def pages(tmp_path: Path, hours=48) -> Path:
    """Hourly pages of a node with one idle L4 (pod ``idler``) and one busy one (``worker``)."""
    out = []
    for hour in range(hours + 1):
        seconds, stamp = hour * HOUR, (START + hour * HOUR) * 1000
        out.append(f"process_start_time_seconds {START} {stamp}")
        for gpu, pod, active in (("GPU-1", "idler", 0.0), ("GPU-2", "worker", 0.9)):
            device = f'node="n1",gpu="{gpu[-1]}",gpu_uuid="{gpu}"'
            held = (
                f'node="n1",namespace="team",pod="{pod}",pod_uid="uid-{pod}",container="main",'
                f'gpu_uuid="{gpu}"'
            )
            out += [
                f'gputailor_device_info{{{device},vendor="nvidia",model="NVIDIA L4"}} 1 {stamp}',
                f"gputailor_device_memory_total_bytes{{{device}}} 24152899584 {stamp}",
                f'gputailor_container_gpu_allocated{{{held},sharing="none"}} 1 {stamp}',
                f"gputailor_container_gpu_allocated_seconds_total{{{held}}} {seconds} {stamp}",
                f"gputailor_container_gpu_memory_peak_bytes{{{held}}} 20000000000 {stamp}",
            ]
            for signal in ("kernel", "encoder", "decoder"):
                name = f'{held},signal="{signal}"'
                value = seconds * active if signal == "kernel" else 0
                out += [
                    f"gputailor_container_gpu_active_seconds_total{{{name}}} {value} {stamp}",
                    f"gputailor_container_gpu_observed_seconds_total{{{name}}} {seconds} {stamp}",
                ]
    path = tmp_path / "n1.prom"
    path.write_text("\n".join(out) + "\n", encoding="utf-8")
    return path


def _pod(name: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "creationTimestamp": "2025-11-29T00:00:00Z",
        },
        "spec": {
            "nodeName": "n1",
            "containers": [
                {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
            ],
        },
        "status": {"phase": "Running", "startTime": "2025-11-29T00:00:00Z"},
    }


def inventory(tmp_path: Path) -> Path:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "n1",
            "labels": {
                "nvidia.com/gpu.product": "NVIDIA-L4",
                "nvidia.com/gpu.count": "2",
                "node.kubernetes.io/instance-type": "g6.12xlarge",
            },
        },
        "status": {
            "capacity": {"nvidia.com/gpu": "2"},
            "allocatable": {"nvidia.com/gpu": "2"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    items = [node, _pod("idler"), _pod("worker")]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": items}), encoding="utf-8")
    return path
