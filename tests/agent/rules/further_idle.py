"""Further worlds of the rules about idleness; see ``further_worlds``."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from tests.agent.factories import (
    DAY,
    HOUR,
    NOW,
    pod,
    row,
)
from tests.agent.rules.circumstances import with_rows, without
from tests.agent.rules.further_parts import (
    SERVED,
    blind,
    by_time,
    interrupted,
    of_two,
)
from tests.agent.rules.service_parts import engine
from tests.agent.rules.test_idle_notebook import LAB, notebook
from tests.agent.rules.test_standby import service as standing_by
from tests.agent.rules.world_parts import (
    World,
    idle_since,
    loaded,
)

Maker = Callable[[], World]

IDLE: Final[Mapping[str, Mapping[str, Maker]]] = {
    "idle": {
        "one of two": lambda: of_two({"kernel": 0.0}, {"kernel": 0.5}),
        "too early": lambda: idle_since(0.5).but(
            usage=[row(NOW - HOUR, seconds=HOUR / 2)], pods=[pod(start=NOW - HOUR / 2)]
        ),
        "unmeasured": lambda: blind(idle_since(7)),
        "every other hour": lambda: interrupted(idle_since(8)),
        "asked": lambda: loaded().but(engine=engine(requests=9.0, last_request=NOW - 3.0 * HOUR)),
        "asked long ago": lambda: loaded(30).but(
            engine=engine(requests=9.0, last_request=NOW - 25.0 * HOUR)
        ),
        "video stopped": lambda: with_rows(
            idle_since(7),
            lambda one: msgspec.structs.replace(one, signals={
                name: told for name, told in one.signals.items()
                if name != "decoder" or one.key.hour < NOW - 3 * HOUR
            }),
        ),
        "worked just now": lambda: by_time(idle_since(3), (1, 0.5), (1, 0.5), (1, 0.5)),
        "notebook that worked": lambda: idle_since(6, worked=True, work=LAB),
        "notebook for long": lambda: idle_since(18, worked=True, work=LAB),
        "unloaded": lambda: loaded(18, memory_gib=1.0),
    },
    "idle_notebook": {
        "two GPUs": lambda: World(*notebook(gpus=2), LAB),
        "a week": lambda: World(*notebook(days=13), LAB),
        "unread": lambda: without("encoder", "decoder")(World(*notebook(), LAB)),
        "always": lambda: World(*notebook(lambda _: True), LAB),
        "never": lambda: World(*notebook(lambda _: False), LAB),
        "kernels": lambda: World(
            *notebook(), msgspec.structs.replace(LAB, kind="StatefulSet")
        ),
    },
    "standby": {
        "not loaded": lambda: World(*standing_by(memory_gib=4.0), SERVED),
        "never worked": lambda: World(*standing_by(lambda _: False), SERVED),
        "long idle": lambda: World(*standing_by(lambda hour: hour < NOW - 4 * DAY), SERVED),
        "two": lambda: World(*standing_by(names=("a", "b")), SERVED),
        "knative": lambda: World(
            *standing_by(), msgspec.structs.replace(SERVED, kind="InferenceService")
        ),
        "takes memory": lambda: World(
            *standing_by(lambda hour: hour // HOUR % 8 == 0),
            msgspec.structs.replace(SERVED, framework="vllm", preallocates=True),
            thresholds={"freed_share": 0.99},
        ),
        "asked": lambda: World(
            *standing_by(), SERVED,
            engine=engine(requests=1e4, last_request=float(NOW - HOUR)),
        ),
    },
}  # fmt: skip
