"""Every page that was captured is read: each metric lands in a signal or is ignored for a reason."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gputailor_agent.dialects.gauges import coverage, gauge_dialects

DIALECT_OF = {
    "all-smi": "all_smi",
    "amd": "amd",
    "ascend": "ascend",
    "dcgm": "dcgm",
    "demo": "nvidia_gpu_exporter",
    "fake-gpu-operator": "dcgm",
    "generated-nvitop": "nvitop",
    "gke": "gke",
    "gpu-monitoring-tools": "dcgm",
    "hami": "hami",
    "intel": "intel",
    "k8s_docs": "dcgm",
    "linux-x86_64": "nvidia_gpu_exporter",
    "nvidia-gpu-exporter": "nvidia_gpu_exporter",
}
PAGES = 35
#: Pages of whose metrics none is a signal of use: excerpts about a link or a clock.
NO_SIGNAL = {
    "dcgm-exporter-gh200-dra-shared-claim.prom",
    "k8s_docs_gh200_dra.prom",
    "ascend-npu-910a-docs.prom",
}


def captured(shared_data):
    folder = shared_data / "captures"
    return sorted([*folder.glob("pages/*.prom"), *folder.glob("*.metrics")])


def dialect_of(path):
    name = next(DIALECT_OF[start] for start in DIALECT_OF if path.name.startswith(start))
    return next(dialect for dialect in gauge_dialects() if dialect.name == name)


def samples(path):
    lines = path.read_text("utf-8").splitlines(keepends=True)
    plain = "".join(line for line in lines if not line.startswith("#"))  # names as they stand
    families = text_string_to_metric_families(plain)
    return [sample for family in families for sample in family.samples]


@pytest.mark.restricted
def test_every_page_is_of_a_known_dialect_and_parses(shared_data):
    pages = captured(shared_data)
    assert len(pages) >= PAGES
    for path in pages:
        assert samples(path), path.name


@pytest.mark.restricted
def test_every_metric_of_every_page_lands_or_is_ignored_for_a_reason(shared_data):
    unknown = {
        f"{path.name}: {sample.name}"
        for path in captured(shared_data)
        for sample in samples(path)
        if coverage(dialect_of(path), sample.name) is None
    }
    assert not unknown


@pytest.mark.restricted
def test_every_page_but_excerpts_has_a_signal_of_a_device(shared_data):
    silent = set()
    for path in captured(shared_data):
        dialect = dialect_of(path)
        landed = [
            sample
            for sample in samples(path)
            if (found := coverage(dialect, sample.name)) is not None
            and any(
                gauge.canonical(sample.value) is not None
                and dict(gauge.labels).items() <= sample.labels.items()
                for gauge in found.gauges
            )
            and dialect.identify(sample.labels, "test") is not None
        ]
        if not landed:
            silent.add(path.name)
    assert silent == NO_SIGNAL


def test_every_counter_of_a_default_dcgm_exporter_is_known(shared_data):
    dcgm = next(dialect for dialect in gauge_dialects() if dialect.name == "dcgm")
    unknown = set()
    for path in sorted((shared_data / "captures").glob("dcgm_exporter_*.csv")):
        for line in path.read_text("utf-8").splitlines():
            name = line.strip().lstrip("# ").partition(",")[0].strip()
            if name.startswith("DCGM_FI_") and coverage(dcgm, name) is None:
                unknown.add(name)
    assert not unknown
