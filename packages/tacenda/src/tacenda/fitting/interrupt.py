"""Ctrl-C at the end of a step rather than in the middle of it."""

import signal
import sys
import threading
from types import FrameType, TracebackType


class DeferredInterrupt:
    """Context manager: the first Ctrl-C only sets ``requested``, the second raises at once.

    Where Python does not let us (outside the main thread) or somebody else handles the signal,
    everything stays as it is.
    """

    def __init__(self) -> None:
        self.requested = False
        self._installed = False

    def __enter__(self) -> "DeferredInterrupt":
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)
            self._installed = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._installed = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        print("\nstopping after this step (Ctrl-C again: at once)", file=sys.stderr)
