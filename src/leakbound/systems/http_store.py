"""A store behind HTTP: records are planted and removed by requests of their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from leakbound.errors import TargetError
from leakbound.models.transport import Transport, default_transport
from leakbound.systems.calls import CallOptions
from leakbound.systems.cleanup import despite_interrupt
from leakbound.systems.http import HttpSystem, reply_of, row_values
from leakbound.systems.http_config import HttpSystemConfig, read_http_config
from leakbound.systems.left_records import Records, left_in_store
from leakbound.systems.protocol import Reply
from leakbound.systems.settling import settle
from leakbound.systems.store_service import TOGETHER, StoreService, for_good
from leakbound.tasks import Context, Example


class HttpStore:
    """A store that a YAML file describes: its `plant` and `remove`, beside the query.

    Only its own host and port is contacted. One pool of connections is open as long as a record of
    this object, or a session, is.

    Args:
        config: What to send, checked; with `plant` and `remove`.
        transport: What sends it; it is closed whenever nothing of this object is in the store. None
            makes an `AiohttpTransport` with cookies.
        calls: Pace, time and retries of the requests that plant and remove. Queries are sent once:
            whoever asks makes them again.
    """

    stateful: ClassVar[bool] = True  # asked by one thread, about one content

    def __init__(
        self,
        config: HttpSystemConfig,
        transport: Transport | None = None,
        calls: CallOptions = CallOptions(),  # noqa: B008  # frozen
    ) -> None:
        self._config, self._transport, self._calls = config, transport, calls
        self._service: StoreService | None = None
        self._uses = 0  # records and sessions of this object

    def __repr__(self) -> str:
        return f"HttpStore({self._config.shown})"

    def called(self, calls: CallOptions) -> HttpStore:
        """The same store, called in another way.

        Args:
            calls: Pace, time and retries of its requests.

        Returns:
            A new object, which knows nothing of what this one has planted.
        """
        return HttpStore(self._config, self._transport, calls)

    def plant(self, record: Example) -> str:
        """Send `plant`.

        Args:
            record: The record (PRIVATE).

        Returns:
            Its id at the service.

        Raises:
            TargetError: If the service does not do it, or names no id.
        """
        service, planted = self._begin(), Records()
        try:
            service.run(service.plant_all((record,), planted))
        except BaseException as error:
            try:
                _take_out(service, planted, error)
            finally:
                self._end()
            raise
        return next(iter(planted))

    def remove(self, record_id: str) -> None:
        """Send `remove`.

        Args:
            record_id: What `plant` returned.

        Raises:
            TargetError: If the service does not do it: the record may be there still.
        """
        service = self._begin()
        try:
            service.run(service.remove(record_id))
            self._uses -= 1  # the record
        finally:
            self._end()

    def open(self, context: Context) -> HttpStoreSession:
        """Send `setup`, if there is one, and plant the documents that it does not hold.

        Args:
            context: The documents (PRIVATE).

        Returns:
            A session; closing it removes these documents and sends `teardown`.

        Raises:
            TargetError: If the service does not do it. What was put in place is taken away then.
            UsageError: If there are documents, and nobody has said that the store is
                disposable.
        """
        if context:
            self._calls.require_disposable(self._config.shown)
        session = HttpStoreSession(self._begin(), self._config, self._end)
        try:
            session.set_up(context)
        except BaseException as error:
            session.close(error)
            raise
        return session

    def _begin(self) -> StoreService:
        if self._service is None:
            transport = self._transport or default_transport(TOGETHER, cookies=True)
            self._service = StoreService(self._config, transport, self._calls)
        self._uses += 1
        return self._service

    def _end(self) -> None:
        """Let go of the connections where nothing of this object is left."""
        self._uses -= 1
        if self._uses <= 0 and self._service is not None:
            self._service.close()
            self._service = None


class HttpStoreSession:
    """The documents of one session at a service."""

    def __init__(
        self, service: StoreService, config: HttpSystemConfig, closed: Callable[[], None]
    ) -> None:
        self._service, self._config, self._closed = service, config, closed
        self._planted = Records()
        self._open = True

    def set_up(self, context: Context) -> None:
        """Put the documents in place."""
        config, service = self._config, self._service
        whole = config.sets_up_rows
        if config.setup is not None:
            values = row_values(context) if whole else {}
            service.run(for_good(service.requests.send(config.setup, values)))
        if not whole:
            began = time.monotonic()
            service.run(service.plant_all(context, self._planted))
            settle(1.5 * (time.monotonic() - began))

    def ask(self, query: str) -> Reply:
        """Send a query, once."""
        service = self._service
        sent, seconds = service.run(service.requests.once(self._config, {"query": query}))
        return reply_of(self._config, sent, seconds)

    def close(self, because: BaseException | None = None) -> None:
        """Remove the documents, send `teardown` if there is one, and let go of the service."""
        if not self._open:
            return
        self._open = False
        try:
            self._take_away(because)
        finally:
            self._closed()

    def _take_away(self, because: BaseException | None) -> None:
        try:
            _take_out(self._service, self._planted, because)
        except BaseException:
            with suppress(TargetError, KeyboardInterrupt):  # what stays is named
                self._tear_down()
            raise
        self._tear_down()

    def _tear_down(self) -> None:
        service, call = self._service, self._config.teardown
        if call is None:
            return
        try:
            despite_interrupt(lambda: service.run(for_good(service.requests.send(call, {}))))
        except TargetError as failure:
            raise TargetError(f"{failure} It was to take the documents away.") from None


def _take_out(service: StoreService, planted: Records, because: BaseException | None) -> None:
    """Remove records, then say what stays."""
    number = len(planted)
    try:
        despite_interrupt(lambda: service.run(service.remove_all(planted)))
    except (TargetError, KeyboardInterrupt) as cause:
        if not planted:
            raise
        stay = [*planted.values()]  # also what was on its way
        raise left_in_store(stay, max(number, len(stay)), cause, because) from None


def load_http_system(
    file: Path,
    transport: Transport | None = None,
    calls: CallOptions = CallOptions(),  # noqa: B008  # frozen
) -> HttpSystem | HttpStore:
    """The system that a YAML file describes, checked.

    Args:
        file: Keys and values of an `HttpSystemConfig`.
        transport: What sends its requests; None for `AiohttpTransport`.
        calls: Pace, time and retries of its requests.

    Returns:
        The system, a store if it has `plant`. It is not contacted yet.

    Raises:
        UsageError: With what is wrong in the file. It shows no header.
    """
    config = read_http_config(file)
    kind = HttpSystem if config.plant is None else HttpStore
    return kind(config, transport, calls)
