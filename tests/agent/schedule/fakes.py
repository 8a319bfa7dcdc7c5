"""Parts a service is made of, without sockets."""

from dataclasses import dataclass

from gputailor_agent.catalog import load_catalogue
from gputailor_agent.model.inventory import ContainerSpec, GpuRequest, Inventory, Pod
from gputailor_agent.model.usage import Page
from gputailor_agent.schedule import AgentService, ServiceSettings
from gputailor_agent.store import Store
from tests.agent.rollup.exporter_model import Exporter, Job

T0 = 1_799_971_200  # Friday 2027-01-15 00:00 UTC


@dataclass
class Failure:
    target: str
    reason: str
    text: str = "did not answer"


@dataclass
class Result:
    pages: tuple[Page, ...]
    failures: tuple[Failure, ...] = ()


class ExporterSource:
    """Scrapes exporter models; ``down`` names those that do not answer."""

    def __init__(self, *exporters: Exporter) -> None:
        self.exporters, self.down = exporters, set()

    def scrape(self, at: float) -> Result:
        pages, failures = [], []
        for exporter in self.exporters:
            exporter.advance(int(at))
            if exporter.name in self.down:
                failures.append(Failure(exporter.name, "timeout"))
            else:
                pages.append(exporter.page())
        return Result(tuple(pages), tuple(failures))


def inventory_of(exporter: Exporter):
    """A reader that knows the exporter's pods as Kubernetes would."""

    def read(at: float) -> Inventory:
        return Inventory(
            cluster="c1",
            at=at,
            pods=tuple(running_pod(job) for job in exporter.jobs if job.start <= at < job.end),
        )

    return read


def running_pod(job: Job) -> Pod:
    request = GpuRequest(resource="nvidia.com/gpu", count=1.0, vendor="nvidia")
    return Pod(
        cluster="c1",
        namespace="team-a",
        name=job.pod,
        uid=job.pod_uid,
        node="node-a",
        phase="Running",
        containers=(ContainerSpec(name="main", gpus=(request,)),),
        created=float(job.start),
        scheduled=float(job.start),
        started=float(job.start),
    )


def service_of(store: Store, exporter: Exporter, now: float, **more) -> AgentService:
    options = {"settings": ServiceSettings(cluster="c1"), "reader": inventory_of(exporter)} | more
    return AgentService(
        options.pop("settings"),
        store,
        options.pop("source", ExporterSource(exporter)),
        options.pop("reader"),
        load_catalogue(),
        lambda: now,
        **options,
    )
