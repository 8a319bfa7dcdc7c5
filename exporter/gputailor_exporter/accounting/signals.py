"""Numbers for signals: the accounting keeps plain lists indexed by these places."""

from typing import Final

from gputailor_exporter.metrics import CONTAINER_SIGNALS, Signal

SIGNALS: Final[tuple[Signal, ...]] = tuple(Signal)
COUNT: Final = len(SIGNALS)
PLACE: Final[dict[str, int]] = {str(signal): place for place, signal in enumerate(SIGNALS)}

KERNEL: Final = PLACE[Signal.KERNEL]
GRAPHICS: Final = PLACE[Signal.GRAPHICS]
SM: Final = PLACE[Signal.SM]
TENSOR: Final = PLACE[Signal.TENSOR]
FP64: Final = PLACE[Signal.FP64]
FP32: Final = PLACE[Signal.FP32]
DRAM: Final = PLACE[Signal.DRAM]
ENCODER: Final = PLACE[Signal.ENCODER]
DECODER: Final = PLACE[Signal.DECODER]

#: Places of the signals containers carry, in the contract's order.
CONTAINER_PLACES: Final[tuple[int, ...]] = tuple(PLACE[signal] for signal in CONTAINER_SIGNALS)

#: What a process on a shared device can tell.
PROCESS_PLACES: Final[tuple[int, ...]] = (KERNEL, ENCODER, DECODER)
