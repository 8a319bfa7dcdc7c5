"""The agent's clock jumps: nothing is counted twice, what was there stays, and it goes on at once."""

import msgspec
import pytest

from gputailor_agent.schedule import ServiceSettings
from gputailor_agent.store import Store
from tests.agent.rollup.exporter_model import Exporter, Job
from tests.agent.schedule.fakes import T0, ExporterSource, Result, service_of

HOUR, DAY, STEP = 3600, 86_400, 60
JUMPS = [sign * size for size in (HOUR - 1, HOUR, HOUR + 1, DAY) for sign in (1, -1)]
BEFORE, END = HOUR + HOUR // 2, 5 * HOUR  # seconds of true time until the jump, and in all


class World:
    """An agent whose clock is off by ``skew``; the exporter's goes right."""

    def __init__(self, store: Store) -> None:
        old = Job(lambda _: 0.5, T0 + 5)
        new = Job(lambda _: 1.0, T0 + BEFORE + 5, pod="new", pod_uid="u2", gpu_uuid="GPU-9")
        exporter = Exporter([old, new], T0)
        self.source, self.store, self.skew, self.passed = ExporterSource(exporter), store, 0, 0
        settings = ServiceSettings(cluster="c1", recommend_seconds=300)
        self.service = service_of(store, exporter, T0, settings=settings, source=self)
        self.most: dict[tuple, float] = {}

    def scrape(self, at: float) -> Result:
        told = self.source.scrape(at - self.skew)
        return Result(tuple(msgspec.structs.replace(page, at=at) for page in told.pages))

    @property
    def now(self) -> int:
        return T0 + self.passed + self.skew

    def live(self, seconds: int) -> None:
        """Look each minute; no row may tell of less than it told before."""
        for past in range(0, seconds, STEP):
            assert self.service.tick_scrape(self.now)
            if past % (5 * STEP) == 0 or past + STEP >= seconds:
                assert self.service.flush(self.now)
                self.check()
            self.passed += STEP

    def check(self) -> None:
        for key, held in self.held().items():
            assert self.most.get(key, 0.0) - 1 / 512 <= held <= HOUR, key
            self.most[key] = held

    def held(self) -> dict[tuple, float]:
        rows = self.store.usage("c1", 0, 1e11)
        return {(row.key.pod, row.key.hour): row.allocated_seconds for row in rows}

    def lost(self, pod: str = "train-0") -> float:
        """Seconds that the old pod held its device and that are not counted."""
        counted = sum(held for (name, _), held in self.held().items() if name == pod)
        return self.passed - STEP - 5 - counted


@pytest.fixture
def world():
    with Store.open() as store:
        made = World(store)
        made.live(BEFORE)
        yield made


def pods(world):
    return {name for name, _ in world.held()}


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_delays_nothing_and_counts_nothing_twice(world, jump):
    world.skew = jump
    world.live(5 * STEP)
    assert "new" in pods(world)  # a pod that began after the jump shows at once
    assert "recommend" in world.service.run_due(world.now)
    world.live(END - BEFORE - 5 * STEP)
    twice = -jump if -DAY < jump < 0 else 0  # time by the clock that there was only once
    assert -1 <= world.lost() <= twice + STEP


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_that_is_taken_back_half_an_hour_later_costs_no_more_than_that(world, jump):
    world.skew = jump
    world.live(HOUR // 2)
    world.skew = 0
    world.live(5 * STEP)
    assert "recommend" in world.service.run_due(world.now)
    world.live(END - BEFORE - HOUR // 2 - 5 * STEP)
    allowed = 300 if abs(jump) == DAY else HOUR // 2 + 2 * STEP
    assert -1 <= world.lost() <= allowed
    assert sum(held for (name, _), held in world.held().items() if name == "new") > 2 * HOUR


def test_a_small_step_back_is_waited_out(world):
    world.skew = -120
    world.live(HOUR)
    assert -1 <= world.lost() <= 120 + STEP


@pytest.mark.parametrize(
    ("minutes", "at"),
    [(6, BEFORE), (10, BEFORE), (45, BEFORE + 29 * STEP), (59, 2 * HOUR + 3 * STEP)],
)
def test_a_step_back_costs_no_more_than_its_length(world, minutes, at):
    world.live(at - BEFORE)
    world.skew = -minutes * STEP
    world.live(END - at)
    assert -1 <= world.lost() <= minutes * STEP + 2 * STEP
