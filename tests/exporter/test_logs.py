"""A log that cannot be written, or that nobody reads."""

import logging
import os
import time

import pytest

from gputailor_exporter.lifecycle.logs import QueuedLog


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def record(text, *arguments):
    return logging.LogRecord("name", logging.WARNING, "file", 1, text, arguments, None)


def test_lines_are_written_in_order(pipe):
    reader, writer = pipe
    log = QueuedLog(writer)
    for number in range(3):
        log.emit(record("line %d", number))
    log.settle(5.0)
    lines = os.read(reader, 4096).decode().splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == ["line 0", "line 1", "line 2"]
    assert " WARNING name: " in lines[0]
    assert log.dropped == 0


def test_nobody_waits_for_a_reader_and_what_is_too_much_is_dropped_and_counted(pipe):
    log = QueuedLog(pipe[1], most_lines=10)
    began = time.monotonic()
    for _ in range(100):
        log.emit(record("x" * 4096))
    log.settle(0.05)
    assert time.monotonic() - began < 2.0
    assert 0 < log.dropped < 100


def test_a_full_disk_costs_lines_and_nothing_else():
    descriptor = os.open("/dev/full", os.O_WRONLY)
    log = QueuedLog(descriptor)
    log.emit(record("lost"))
    log.settle(5.0)
    os.close(descriptor)
    assert log.dropped == 1


def test_a_message_that_does_not_fit_its_arguments_is_written_as_it_is(pipe):
    reader, writer = pipe
    log = QueuedLog(writer)
    log.emit(record("%d of %d", "one"))
    log.settle(5.0)
    assert os.read(reader, 4096) == b"%d of %d\n"
