# ruff: noqa: INP001 - a script that the chart's test pod runs
"""What ``helm test`` runs: whether exporters, agent, its first pass and its Prometheus are there.

Arguments: seconds to wait, then ``exporter=URL`` and ``agent=URL``, whichever the chart installs.
It prints a line for each check, and ends with 1 and what to look at where one does not come true.
Nothing but the standard library: it runs in the agent's or the exporter's own image.
"""

import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable

#: What a check says that is not so: not yet, or what is wrong.
Told = tuple[bool, str]
OK = 200
#: Jobs that read usage, and what they read.
READINGS = {"scrape": "exporters", "history": "Prometheus"}
PREFIX = "gputailor_agent_"
#: As the alert GpuTailorUsageStale has it.
LATE_SECONDS = 10800


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
    """The agent reads exporters or its Prometheus, and is not behind.

    By its metrics: API and pages answer nobody without a name.
    """
    status, text = get(f"{base}/metrics")
    if status != OK:
        return False, f"reading: {text.strip() or status}"
    found = samples(text)
    jobs = [job for job in READINGS if runs(found, job, "done") is not None]
    for job, name in READINGS.items():
        if job in jobs and (fault := unread(found, job, time.time())):
            return False, f"reading {name}: {fault}"
    return bool(jobs), f"reading: {', '.join(READINGS[job] for job in jobs) or 'nothing to read'}"


def samples(text: str) -> dict[str, float]:
    """Values by series, of a page of metrics."""
    lines = (line.rpartition(" ") for line in text.splitlines() if line[:1] not in {"", "#"})
    return {series: float(value) for series, _, value in lines}


def runs(found: dict[str, float], job: str, outcome: str) -> float | None:
    """How often a job ended so since the agent's start; None for a job that it does not have."""
    return found.get(f'{PREFIX}job_runs_total{{job="{job}",outcome="{outcome}"}}')


def unread(found: dict[str, float], job: str, now: float) -> str:
    """What is wrong with a job that reads usage; '' for nothing."""
    done, failed = runs(found, job, "done"), runs(found, job, "failed")
    end = found.get(f"{PREFIX}usage_end_timestamp_seconds")
    if end is not None:
        late = now - end > LATE_SECONDS
        return f"nothing was read for {(now - end) / 3600:.0f} h" if late else ""
    if failed and not done:
        return f"failed {failed:.0f} times; the agent's log says why"
    # Each hour of a Prometheus is read once: an agent that was started anew waits for the next one.
    # That the hours before were read is known by then, for there is a plan.
    resting = job == "history" and not done
    return "" if resting else ("no exporter has answered" if done else "has not begun")


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
