# ruff: noqa: INP001 - a script that the chart's test pod runs
"""What ``helm test`` runs: whether exporters, agent, its first pass and its Prometheus are there.

Arguments: seconds to wait, then ``exporter=URL`` and ``agent=URL``, whichever the chart installs.
It prints a line for each check, and ends with 1 and what to look at where one does not come true.
Nothing but the standard library: it runs in the agent's or the exporter's own image.
"""

import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable

#: What a check says that is not so: not yet, or what is wrong.
Told = tuple[bool, str]
OK = 200
READINGS = ("scrape", "history")


def get(url: str) -> tuple[int, str]:
    """Status and text; an error of HTTP is an answer, too. Raises OSError."""
    # Who answers is the cluster's business; whether somebody does is asked here.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=10, context=context) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")


def exporter(base: str) -> Told:
    """Somebody answers at the exporters' Service, and devices are read."""
    status, text = get(f"{base}/readyz")
    return status == OK, f"exporter: {text.strip() or status}"


def api(base: str) -> Told:
    """The agent serves pages and API."""
    status, text = get(f"{base}/healthz")
    return status == OK, f"agent: {text.strip() or status}"


def first_pass(base: str) -> Told:
    """The agent rolled up what it has read, and has a first plan."""
    status, text = get(f"{base}/readyz")
    return status == OK, f"first rollup and plan: {text.splitlines()[0] if text else status}"


def reading(base: str) -> Told:
    """The agent reads exporters or its Prometheus, and the last time went well."""
    status, text = get(f"{base}/api/v1/tasks")
    if status != OK:
        return False, f"reading: {text.strip() or status}"
    jobs = [one for one in json.loads(text)["tasks"] if one["job"] in READINGS]
    for job in jobs:
        name = "Prometheus" if job["job"] == "history" else "exporters"
        if job["done_at"] is None or job["outcome"] == "failed":
            return False, f"reading {name}: {job['reason'] or 'has not begun'}"
    return bool(jobs), f"reading: {', '.join(job['job'] for job in jobs) or 'nothing to read'}"


CHECKS: dict[str, tuple[Callable[[str], Told], ...]] = {
    "exporter": (exporter,),
    "agent": (api, first_pass, reading),
}
ADVICE = {
    "exporter": "kubectl get and logs of the DaemonSet; no pod at all: no node has one of the "
    "labels of exporter.affinityLabels",
    "agent": "kubectl logs of the agent's Deployment",
}


def wait(check: Callable[[str], Told], base: str, until: float) -> Told:
    """The check's first good answer, or its last one when the time is over."""
    while True:
        try:
            found = check(base)
        except (OSError, ValueError, KeyError) as error:
            found = False, f"{base}: {error}"
        if found[0] or time.monotonic() >= until:
            return found
        time.sleep(2)


def main(arguments: list[str]) -> int:
    """Run the checks in order; 1 with the first that fails."""
    seconds, *places = arguments
    until = time.monotonic() + float(seconds)
    for place in places:
        kind, _, base = place.partition("=")
        for check in CHECKS[kind]:
            good, told = wait(check, base, until)
            sys.stdout.write(f"{'ok  ' if good else 'FAIL'} {told}\n")
            if not good:
                sys.stdout.write(f"     look at: {ADVICE[kind]}\n")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
