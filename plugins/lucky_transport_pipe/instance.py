"""One engine at one pipe, for programs that play experiments: a Unity scene, or an engine of ours.

    with Instance("train", ["./Training.x86_64"]) as unity:             # starts the build: ... -batchmode -nographics
        experiment = unity.experiment("cart_pole", [{"WindSeed": n, "InitialAngle": 0.1} for n in range(100)])
        scores = experiment.play(policy)

    with Instance("train") as unity: ...                                # waits for an editor to attach

An engine that was started here ends with the instance.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence
from typing import Any

from lucky_transport.closing import Closing
from lucky_transport.deadline import Deadline
from lucky_transport.errors import ConfigError, TransportError
from lucky_transport.process import ChildProcess
from lucky_transport_pipe.control import ControlEvent
from lucky_transport_pipe.conversation import Conversation
from lucky_transport_pipe.experiment import Experiment, json_word
from lucky_transport_pipe.listener import PipeListener

#: What a Unity build gets behind its own arguments.
_ARGUMENTS = ("-batchmode", "-nographics", "-p")
#: How long an engine that was told to quit may take, and how often it is looked at meanwhile.
_GRACE_S = 5.0
_LOOK_S = 0.01


class Instance(Closing):
    """Offers the pipe `name`, starts `command` if there is one, and waits until the engine has connected.

    An engine that is started here ends with the instance: it is told to quit, and killed if it does not. Experiments
    are run one after another; several engines are several instances, with a pipe each.

    connect_timeout_s: the wait for the engine. timeout_s: every later wait. adds_arguments: the command is told the
    pipe's name as a Unity build is (`-batchmode -nographics -p NAME`); False where it holds that already.

    Raises ConfigError, Busy (the name has a client), NotReachable (no engine came, or the process ended).
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str] = (),
        *,
        connect_timeout_s: float = 60.0,
        timeout_s: float = 60.0,
        adds_arguments: bool = True,
    ) -> None:
        self.name = name
        self._timeout_s = timeout_s
        self._process: ChildProcess | None = None
        self._listener = PipeListener(name)
        try:
            if command:
                arguments = (*_ARGUMENTS, name) if adds_arguments else ()
                self._process = ChildProcess(command[0], [*command, *arguments])
            connection = self._listener.accept(Deadline(connect_timeout_s), self._exit_report)
        except BaseException:
            self._release(0.0)
            raise
        self._conversation = Conversation(connection, timeout_s, self._last_exit_report)

    def _exit_report(self) -> str:
        return "" if self._process is None else self._process.exit_report(0.0)

    def _last_exit_report(self) -> str:
        """Return how the process ended; a connection breaks a moment before its process can be waited for."""
        return "" if self._process is None else self._process.exit_report()

    @property
    def warnings(self) -> Sequence[str]:
        """The texts of the engine's last warnings, the oldest first."""
        return tuple(self._conversation.warnings)

    def experiment(self, name: str, inits: Iterable[Any], *, state: type | None = None) -> Experiment:
        """Run an experiment with one session per element of `inits`, and return it; its sessions start at once.

        inits: messages, plain JSON data (a dict), or JSON texts. state: the message class of its states (None: plain
        JSON data). Raises UnknownName (the engine has no such experiment), ValueError (init data that is no JSON, and
        nothing was sent), LocalProtocolError (another one runs), PeerTimeout, PeerDied.
        """
        lines = [json_word(init) for init in inits]
        conversation = self._conversation
        run = conversation.start(name, Deadline(self._timeout_s))
        for line in lines:
            conversation.send_init(line)
        conversation.end_inits()
        return Experiment(conversation, run, state)

    def set(self, name: str, value: Any) -> None:
        """Change a setting of the engine; there is no response. Our engines know slots, stepping and timeout_s, for the
        next run; a Unity scene knows none yet.
        """
        text = f"{name} {value}"
        if len(text.splitlines()) != 1:
            raise ConfigError(f"a setting is one line, not {text!r}")
        self._conversation.write(f"set {text}")
        self._conversation.flush()

    def quit(self, timeout_s: float = _GRACE_S) -> None:
        """Have the engine end, and close; one that was started here is killed if it has not ended in time.

        Raises PeerTimeout when it did not answer, ClosedError when the pipe was closed before.
        """
        try:
            self._conversation.quit(Deadline(timeout_s))
        finally:
            self._conversation.close()
            self._release(timeout_s)

    def close(self) -> None:
        """End the connection and the engine that was started here; idempotent. One that only attached goes on."""
        if self._process is not None and self._conversation.control.allows(ControlEvent.QUIT):
            with contextlib.suppress(TransportError):
                self.quit()
        self._conversation.close()
        self._release(_GRACE_S)

    def _release(self, grace_s: float) -> None:
        self._listener.close()
        process, self._process = self._process, None
        if process is not None:
            deadline = Deadline(grace_s)
            while process.is_alive and not deadline.expired:  # it ends by itself once it has sent QUIT
                time.sleep(_LOOK_S)
            process.stop(grace_s)
