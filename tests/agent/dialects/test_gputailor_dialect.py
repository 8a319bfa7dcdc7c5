"""The dialect of our exporter covers its contract and insists on it."""

import pytest

from gputailor_agent.dialects import Field, PlaceError, dialect_of, dialects
from gputailor_exporter import metrics
from gputailor_exporter.metrics import CONTAINER_LABELS, FAMILIES, Family, Kind


def sample_name(family: Family) -> str:
    return family.name + ("_bucket" if family.kind is Kind.HISTOGRAM else "")


def labels_of(family: Family) -> dict[str, str]:
    labels = {name: f"<{name}>" for name in family.labels}
    return {**labels, "le": "+Inf"} if family.kind is Kind.HISTOGRAM else labels


@pytest.mark.parametrize(
    "family", [f for f in FAMILIES if f.labels[: len(CONTAINER_LABELS)] == CONTAINER_LABELS],
    ids=lambda family: family.name,
)  # fmt: skip
def test_every_container_family_has_a_place(family: Family) -> None:
    dialect = dialect_of(family.name)
    assert dialect is not None
    place = dialect.place(sample_name(family), labels_of(family), "lab")
    assert place is not None
    assert place.holder is not None
    assert place.holder.pod == "<pod>"
    assert place.device is None


def test_every_family_of_the_exporter_is_known_as_ours() -> None:
    assert {dialect_of(family.name) for family in FAMILIES} == {dialects()[0]}


def test_a_stranger_has_no_dialect() -> None:
    assert dialect_of("DCGM_FI_DEV_GPU_UTIL") is None


def test_prefixes_of_dialects_do_not_overlap() -> None:
    prefixes = [prefix for dialect in dialects() for prefix in dialect.prefixes]
    assert len(prefixes) == len(set(prefixes))
    assert not any(a != b and a.startswith(b) for a in prefixes for b in prefixes)


@pytest.mark.parametrize("lacking", ["namespace", "pod", "container", "gpu_uuid", "signal"])
def test_a_missing_label_is_told(lacking: str) -> None:
    labels = labels_of(metrics.CONTAINER_ACTIVE_SECONDS)
    del labels[lacking]
    dialect = dialects()[0]
    with pytest.raises(PlaceError, match=lacking):
        dialect.place(metrics.CONTAINER_ACTIVE_SECONDS.name, labels, "lab")


def test_a_pod_uid_that_cannot_be_known_is_empty() -> None:
    labels = labels_of(metrics.CONTAINER_ALLOCATED)
    del labels["pod_uid"]
    place = dialects()[0].place(metrics.CONTAINER_ALLOCATED.name, labels, "lab")
    assert place is not None
    assert place.holder is not None
    assert place.holder.pod_uid == ""
    assert place.field is Field.ALLOCATED
