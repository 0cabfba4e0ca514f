"""The pytest plugin: the fixture `privacy_audit`, the marker `privacy`, and --privacy-live.

It is loaded at every start of pytest, so the package itself is imported only by a test that audits.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Unpack

import pytest

if TYPE_CHECKING:
    from leakbound.api.parameters import AuditParameters, Rows, UserSystem
    from leakbound.auditing import AuditResult, AuditSpec
    from leakbound.auditing.collect.collect import CollectionPlan
    from leakbound.models import Model
    from leakbound.systems import CallOptions

FOLDER = ".leakbound"


def pytest_addoption(parser: pytest.Parser) -> None:
    """--privacy-live."""
    group = parser.getgroup("leakbound", "audits of what a system leaks")
    group.addoption(
        "--privacy-live",
        action="store_true",
        help="call systems and models for trials that are not stored",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "privacy: audits what a system leaks, from stored trials unless --privacy-live"
    )


@pytest.fixture
def privacy_audit(request: pytest.FixtureRequest) -> PrivacyAudit:
    """Audits a system from stored trials, and checks what was found."""
    return PrivacyAudit(
        request.node.nodeid, request.config.rootpath, request.config.getoption("--privacy-live")
    )


class PrivacyAudit:
    """Audits of one test. Trials are kept under .leakbound in the root folder, apart for each test,
    and replayed without any call.

    live: systems and models may be called for trials that are not stored; else a test that lacks
    some fails.
    """

    def __init__(self, test: str, root: Path, live: bool) -> None:
        self.test, self.root, self.live = test, root, live
        plain = re.sub(r"\W+", "_", test).strip("_")[-60:]
        self.folder = root / FOLDER / f"{plain}-{_digest(test.encode())[:8]}"
        self._systems: dict[str, object] = {}

    def __call__(
        self,
        rows: Rows | None = None,
        system: UserSystem | None = None,
        *,
        settings: Mapping[str, object] | None = None,
        calls: CallOptions | None = None,
        **options: Unpack[AuditParameters],
    ) -> AuditResult:
        """The record of an audit; it asserts nothing. Arguments are those of `leakbound.audit`,
        without `out`.

        Trials belong to this test, all options, the rows, the version of leakbound, the file that
        defines the system, and the plain values that it holds: when one of them changes, they are
        collected anew. Raises LeakboundError for what cannot be audited.
        """
        from leakbound.errors import LeakboundError

        try:
            return self._record(rows, system, settings, calls, options)
        except LeakboundError as error:
            # a traceback of pytest's shows arguments, and these are private rows
            pytest.fail(str(error), pytrace=False)

    def _record(
        self,
        rows: Rows | None,
        system: UserSystem | None,
        settings: Mapping[str, object] | None,
        calls: CallOptions | None,
        options: AuditParameters,
    ) -> AuditResult:
        from leakbound.api.audits import prepare_call
        from leakbound.auditing.audit import run_audit
        from leakbound.auditing.collect.collect import runner_of
        from leakbound.auditing.prepare.build import open_models

        source = "" if system is None else _source(system, self.root)
        prepared = prepare_call(
            rows,
            system=system,
            settings=settings,
            source=source,
            opener=open_models if self.live else self._kept,
            **options,
        )
        self._require_one_system(prepared.name, system)
        _make_private(self.root / FOLDER)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        asking = runner_of(prepared, calls, self.folder)
        return run_audit(prepared, self.folder, ask=asking if self.live else self._lacking)[0]

    def check(self, record: AuditResult) -> None:
        """Fail the test unless the verdict is no_violation:

        a violation, and an audit that could have found none.
        """
        from leakbound.report import summary

        if record.verdict != "no_violation":
            run = (self.folder / record.name).relative_to(self.root)
            again = f"  Again, from the stored trials: pytest {shlex.quote(self.test)}"
            report = f"  Its report: leakbound report {run}"
            pytest.fail(f"{summary(record)}\n{again}\n{report}", pytrace=False)

    def _require_one_system(self, run: str, system: object) -> None:
        """Two systems that cannot be distinguished would be given each other's trials."""
        from leakbound.errors import UsageError

        if self._systems.setdefault(run, system) is not system:
            raise UsageError(
                "a test audited two systems of one name and file with the same options; audit "
                "each in a test of its own."
            )

    def _kept(self, spec: AuditSpec) -> Model:
        """The model that the stored trials are of, not opened; one whose tokenizer makes canaries
        is opened, and not asked.
        """
        from leakbound.auditing.prepare.build import open_models
        from leakbound.auditing.shards import needs_tokenizer, replay_model
        from leakbound.errors import StoreError

        if needs_tokenizer(spec):
            return open_models(spec)
        try:
            return replay_model(spec, self.folder)
        except StoreError:
            self._fail("no trials of this model are stored, or those of several of its versions")

    def _lacking(self, questions: CollectionPlan, model: Model, batches: Sequence[int]) -> NoReturn:
        """In the place of asking."""
        self._fail(
            f"{questions.pairs_in(batches)} of {len(questions.pairs)} pairs of this audit are not "
            "stored"
        )

    def _fail(self, why: str) -> NoReturn:
        folder = self.folder.relative_to(self.root)
        collect = f"pytest {shlex.quote(self.test)} --privacy-live"
        pytest.fail(
            f"{why}, and a test calls no system or model by itself; collect trials once with: "
            f"{collect}. They are kept in {folder}; delete what is there to begin anew.",
            pytrace=False,
        )


def _source(system: object, root: Path) -> str:
    """What tells a system from an earlier one of its name: where it is defined, and a hash of that
    file, which must be the user's own, and of what it holds.
    """
    from leakbound.errors import UsageError

    kind = system if inspect.isroutine(system) or inspect.isclass(system) else type(system)
    try:
        file = Path(inspect.getsourcefile(inspect.unwrap(kind)) or "").resolve()
    except TypeError:
        file = Path()
    if not file.is_file() or root.resolve() not in file.parents or "site-packages" in file.parts:
        raise UsageError(
            f"the system {getattr(system, '__name__', 'system')!r} is not defined in a file below "
            f"{str(root)!r}, so its stored trials could "
            "not be distinguished from those of another; write a function or a class around it."
        )
    return f"{kind.__qualname__}:{_digest(file.read_bytes() + _hold(system).encode())[:16]}"


def _hold(system: object) -> str:
    """What an object, or a function made by another, holds:

    numbers, texts, and lists, dicts and data classes of them; else types.
    """
    thing = getattr(system, "__self__", system)
    cells = [cell.cell_contents for cell in getattr(system, "__closure__", None) or ()]
    given = [getattr(system, name, None) for name in ("__defaults__", "__kwdefaults__")]
    return json.dumps([_values(thing), given, cells], default=_describe, skipkeys=True)


def _values(thing: object) -> dict[str, object]:
    """Attributes of an object; none of a class, whose file tells them."""
    if inspect.isclass(thing):
        return {}
    slots = {name: getattr(thing, name, None) for name in getattr(type(thing), "__slots__", ())}
    return {**slots, **getattr(thing, "__dict__", {})}


def _describe(value: object) -> object:
    kind = type(value).__qualname__
    return [kind, _values(value)] if is_dataclass(value) else kind


def _make_private(folder: Path) -> None:
    """Readable by its owner only, and not for version control: trials tell of private rows."""
    folder.mkdir(mode=0o700, exist_ok=True)
    ignore = folder / ".gitignore"
    ignore.touch(mode=0o600)
    ignore.write_text("*\n", encoding="utf-8")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
