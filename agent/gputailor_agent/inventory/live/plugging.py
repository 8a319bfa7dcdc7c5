"""Programs that a kubeconfig names for its credentials get a time limit.

The ``kubernetes`` client waits for an exec plugin (and for an auth-provider's ``cmd-path``) without
end: one that hangs would block whoever asked, also the agent when a token is renewed. Both start
their program by the name ``subprocess`` of their own module, in whose place this stands there.
kubectl has no limit either; somebody at a terminal may be logging in by a browser meanwhile, so he
has longer. What the program started itself is stopped with it where nobody sits before it.
"""

import os
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, Final

#: Seconds for a program that nobody watches.
UNATTENDED_SECONDS: Final = 60.0
#: Seconds at a terminal, where it may wait for a person.
ATTENDED_SECONDS: Final = 300.0
#: Seconds after which a person is told what is waited for.
SILENT_SECONDS: Final = 5.0


class _Limited(subprocess.Popen[str]):
    """A process that is asked for its whole output, and stopped when that takes too long."""

    def __init__(self, args: Any, **more: Any) -> None:
        self._attended = more.get("stderr") is not subprocess.PIPE  # the client's own sign for it
        # A session of its own would take a program that asks at the terminal away from it.
        super().__init__(args, start_new_session=not self._attended, **more)

    def communicate(
        self,
        input: str | None = None,  # noqa: A002 - its name there
        timeout: float | None = None,
    ) -> tuple[str, str]:
        """Output and errors; raises ``TimeoutError`` in words for a person."""
        limit = timeout or (ATTENDED_SECONDS if self._attended else UNATTENDED_SECONDS)
        silent = min(SILENT_SECONDS, limit)
        try:
            return super().communicate(input, silent)
        except subprocess.TimeoutExpired:
            if self._attended:
                sys.stderr.write(f"waiting for {self._name} (at most {limit:g} s)\n")
        try:
            return super().communicate(None, limit - silent)
        except subprocess.TimeoutExpired:
            self._stop()
            raise TimeoutError(f"no answer within {limit:g} s, so it was stopped") from None

    @property
    def _name(self) -> str:
        args = self.args
        return str(args[0]) if isinstance(args, list | tuple) else str(args)

    def _stop(self) -> None:
        try:
            if self._attended:
                self.kill()
            else:
                os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended by itself just now
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()  # a grandchild may hold the other end: there is no waiting for it
        self.wait()


def limit(*modules: Any) -> None:
    """Let modules of the client start programs with a time limit; again is as good as once."""
    for module in modules:
        module.subprocess = SimpleNamespace(Popen=_Limited, PIPE=subprocess.PIPE)
