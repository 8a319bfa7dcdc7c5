"""Plays ``nvidia-smi --query-gpu=FIELDS --format=csv -l 1``, seventy minutes at once.

An L4 that trains: half busy, 9 GiB. Refuses, as the real one does, a field that there is not.
"""

import sys
from datetime import UTC, datetime, timedelta

#: Field -> (unit in the header, value).
FIELDS = {
    "index": ("", "0"),
    "uuid": ("", "GPU-8a9f0d52-11cc-4b8e-a9d6-3c7d1f2e4b60"),
    "name": ("", "NVIDIA L4"),
    "utilization.gpu": (" [%]", "50 %"),
    "utilization.memory": (" [%]", "20 %"),
    "memory.used": (" [MiB]", "9216 MiB"),
    "memory.total": (" [MiB]", "23034 MiB"),
    "power.draw": (" [W]", "50.00 W"),
    "power.limit": (" [W]", "72.00 W"),
    "temperature.gpu": ("", "55"),
    "utilization.encoder": (" [%]", "0 %"),
    "utilization.decoder": (" [%]", "0 %"),
}
BEGAN = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
SECONDS = 70 * 60


def main(arguments: list[str]) -> int:
    query, *rest = arguments
    assert rest == ["--format=csv", "-l", "1"], rest
    fields = query.removeprefix("--query-gpu=").split(",")
    for field in fields:
        if field not in FIELDS and field != "timestamp":
            sys.stdout.write(f'Field "{field}" is not a valid field to query.\n')
            return 2
    lines = [", ".join(field + FIELDS.get(field, ("", ""))[0] for field in fields)]
    for second in range(SECONDS):
        at = f"{BEGAN + timedelta(seconds=second):%Y/%m/%d %H:%M:%S}.000"
        lines.append(", ".join(at if one == "timestamp" else FIELDS[one][1] for one in fields))
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
