"""The driver as a whole: waited for, listed, missed, replaced."""

import pytest

from gputailor_exporter.devices.base import DeviceError, Reason
from gputailor_exporter.sampling.discovery import Discovery, DiscoverySettings, Found
from tests.exporter.machines import GPU, OTHER
from tests.exporter.stubs import StubBackend

SETTINGS = DiscoverySettings()


class Driver(StubBackend):
    """Fails with ``error`` while there is one; expects two GPUs."""

    error = None
    opened = 0

    def open(self):
        self.opened += 1
        self._fail()

    def devices(self):
        self._fail()
        return self.identities

    def expected(self):
        return 2

    def _fail(self):
        if self.error is not None:
            raise self.error


def away(text="no library", **more):
    return DeviceError(Reason.DRIVER_ERROR, text, **more)


@pytest.fixture
def driver():
    return Driver((GPU, OTHER))


@pytest.fixture
def counted():
    return []


@pytest.fixture
def discovery(driver, counted):
    return Discovery(driver, SETTINGS, lambda *what: counted.append(what))


def attempts(discovery, driver, seconds):
    """Times at which the driver was opened, looked at ten times a second."""
    found, before = [], driver.opened
    for tenth in range(seconds * 10):
        discovery.step(tenth / 10)
        if driver.opened > before:
            found.append(tenth / 10)
            before = driver.opened
    return found


def test_a_driver_that_is_away_is_tried_at_growing_and_bounded_intervals(
    discovery, driver, counted
):
    driver.error = away()
    assert attempts(discovery, driver, 130) == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 61.0, 91.0, 121.0]
    assert counted == [("driver", "driver_error")] * 9


def test_what_is_waited_for_is_told_to_probes_and_said_once(discovery, driver, caplog):
    driver.error = away()
    attempts(discovery, driver, 10)
    assert discovery.trouble == "cannot read devices: no library"
    assert len(caplog.messages) == 1
    driver.error = away("no permission")
    discovery.step(100.0)
    assert [message.split(".")[0] for message in caplog.messages] == [
        "cannot read devices: no library",
        "cannot read devices: no permission",
    ]


def test_the_gpus_that_should_be_here_are_known_while_the_driver_is_away(discovery, driver):
    driver.error = away()
    assert discovery.step(0.0) == Found((), 2, listed=False)
    assert not discovery.listed


def test_a_driver_that_comes_is_listed_at_once_and_then_by_the_interval(discovery, driver):
    driver.error = away()
    discovery.step(0.0)
    driver.error = None
    assert discovery.step(1.0) == Found((GPU, OTHER), 2)
    assert discovery.trouble == ""
    assert discovery.step(10.9) is None
    assert discovery.step(11.0) == Found((GPU, OTHER), 2)
    assert driver.opened == 2


def test_a_gpu_that_is_missing_is_looked_for_sooner_but_not_for_ever(discovery, driver):
    driver.identities = (GPU,)
    looked = [tenth / 10 for tenth in range(300) if discovery.step(tenth / 10) is not None]
    assert looked == [0.0, 1.0, 3.0, 7.0, 15.0, 25.0]


def test_a_listing_that_is_asked_for_comes_at_once_but_not_more_often_than_each_second(
    discovery, driver
):
    woken = []
    discovery.on_soon = lambda: woken.append(1)
    discovery.step(0.0)
    discovery.soon()
    assert woken == [1]
    assert discovery.pause(0.25) == pytest.approx(0.75)
    assert discovery.step(0.5) is None
    assert discovery.step(1.0) is not None
    discovery.soon()
    assert discovery.pause(5.0) == 0.0
    assert discovery.step(5.0) is not None


def test_between_two_listings_there_is_nothing_to_do(discovery, driver):
    discovery.step(0.0)
    assert discovery.pause(0.0) == pytest.approx(10.0)
    assert discovery.pause(9.0) == pytest.approx(1.0)
    driver.error = away()
    discovery.step(10.0)
    assert discovery.pause(10.0) == pytest.approx(1.0)


def test_a_listing_that_fails_is_counted_and_tried_again_soon(discovery, driver, counted):
    discovery.step(0.0)
    driver.error = away()
    assert [discovery.step(10.0 + tenth / 10) for tenth in range(20)] == [None] * 20
    assert counted == [("discovery", "driver_error")] * 2
    driver.error = None
    assert discovery.step(12.0) == Found((GPU, OTHER), 2)
    assert discovery.trouble == ""


def test_a_driver_that_was_replaced_asks_for_a_new_process_after_a_while(discovery, driver):
    discovery.step(0.0)
    driver.error = away(driver_replaced=True)
    discovery.step(10.0)
    assert discovery.renewal(14.9) == ""
    assert discovery.renewal(15.0) == "the driver was replaced under this process"
    driver.error = None
    discovery.step(20.0)
    assert discovery.renewal(30.0) == ""


def test_one_good_reading_shows_that_the_driver_was_not_replaced(discovery):
    discovery.step(0.0)
    discovery.failed(away(driver_replaced=True), 1.0)
    discovery.answered()
    assert discovery.renewal(100.0) == ""


def test_a_listing_that_fails_for_long_asks_for_a_new_process(discovery, driver):
    discovery.step(0.0)
    driver.error = away()
    for second in range(10, 131):
        discovery.step(float(second))
    assert discovery.renewal(129.9) == ""
    assert discovery.renewal(130.0) == "the driver has listed no devices for 120 s"


def test_a_driver_that_never_was_here_is_no_reason_for_a_new_process(discovery, driver):
    driver.error = away()
    attempts(discovery, driver, 200)
    assert discovery.renewal(1e6) == ""


def test_a_library_of_another_driver_asks_for_a_new_process_each_minute(discovery, driver):
    driver.error = away(driver_replaced=True)
    discovery.step(0.0)
    assert discovery.renewal(59.0) == ""
    assert discovery.renewal(60.0) != ""


def test_a_node_without_devices_is_said_once(driver, discovery, caplog):
    driver.identities = ()
    for second in range(50):
        discovery.step(float(second))
    assert caplog.messages == ["the stub back end lists no device on this node"]


def test_a_backend_that_does_not_know_its_number_before_it_is_open_expects_none(driver, counted):
    driver.expected = lambda: (_ for _ in ()).throw(away())
    driver.error = away()
    discovery = Discovery(driver, SETTINGS, lambda *what: counted.append(what))
    assert discovery.step(0.0) == Found((), None, listed=False)
