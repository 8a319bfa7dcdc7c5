"""What ends a run, whichever thread is told of it."""

import os
import signal
import threading

import pytest

from gputailor_exporter.lifecycle.ending import RENEW, Ending


def test_a_signal_ends_the_wait():
    with Ending() as ending:
        assert not ending.due(0.0)
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
        assert ending.wait() == signal.SIGTERM


def test_a_signal_that_another_thread_takes_ends_the_wait_too():
    def take():
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    with Ending() as ending:
        threading.Timer(0.05, take).start()
        assert ending.wait() == signal.SIGINT


def test_the_need_for_a_new_process_ends_the_wait():
    with Ending() as ending:
        threading.Thread(target=ending.renew, args=("replaced",)).start()
        assert ending.due(5.0)
        assert ending.wait() == RENEW
    ending.renew("too late")


def test_afterwards_signals_do_what_they_did_before():
    before = signal.getsignal(signal.SIGINT)
    with Ending():
        assert signal.getsignal(signal.SIGINT) is not before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
