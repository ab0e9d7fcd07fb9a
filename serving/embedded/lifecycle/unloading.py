"""Versions on their way out: each is closed when the last request that uses it is answered.

In a thread of its own: a request may take long, and other versions are to be loaded meanwhile.
"""

from __future__ import annotations

import logging
import threading

from bertline.serving.embedded.lifecycle.known import State, Version

_log = logging.getLogger(__name__)


class Unloading:
    """The versions that wait to be closed."""

    def __init__(self, changed: threading.Condition) -> None:
        """
        Args:
          changed: guards states and leases of all versions; notified when one that is UNLOADING has no lease any more.
        """
        self._changed = changed
        self._leaving: list[tuple[str, Version]] = []
        self._is_last = False
        self._thread = threading.Thread(target=self._work, name="unloading", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, model: str, version: Version) -> None:
        """From now on no request can reach the version."""
        with self._changed:
            version.state = State.UNLOADING
            self._leaving.append((model, version))
            self._changed.notify_all()

    def stop(self) -> None:
        """Returns when all that were added are closed."""
        with self._changed:
            self._is_last = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        while leaving := self._next():
            model, version = leaving
            try:
                assert version.servable is not None
                version.servable.close()
            except Exception:  # others wait to be closed
                _log.exception("version %d of %s was not closed", version.number, model)
            with self._changed:
                version.servable, version.state = None, State.END
            _log.info("version %d of %s was unloaded", version.number, model)

    def _next(self) -> tuple[str, Version] | None:
        """The next that no request uses; None when there will be no more."""
        with self._changed:
            while self._leaving or not self._is_last:
                for place, (_, version) in enumerate(self._leaving):
                    if not version.leases:
                        return self._leaving.pop(place)
                self._changed.wait()
        return None
