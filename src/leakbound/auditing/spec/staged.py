"""Designs in which a record is planted and used before the question: what each does, in words.

The claim is 0 unless a budget is stated. Another such design is another row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Staged:
    deleted: bool  # the record is removed before the question; else another tenant asks
    keys: Mapping[str, tuple[tuple[object, ...], str]] = field(repr=False)  # their values, and why
    zero: str  # what a claim of 0 is called
    controls: tuple[tuple[str, str], ...]  # who sees a record that is there, and who does not
    unseen: str  # what no control shows, and what to check
    checked: tuple[str, str]
    trials: str
    there: str
    shown: str
    differ: str
    whose: str
    did: str
    remedy: str
    law: str = ""
    clients: int = 1  # of each tenant


SHARED = "what trials share is under test"
ARTICLE_17 = (
    "GDPR Article 17 asks for erasure without undue delay; legal duties to keep data are exempt. "
    "This shows only what the answers asked reveal: no disks, backups, or logs that no answer "
    "shows."
)
STAGED = {
    "tenants": Staged(
        deleted=False,
        keys={
            "insertion": (("replace",), "who has no canary has another record"),
            "documents": ((0,), "the tenants plant canaries alone"),
            "state_check": ((0.0,), SHARED),
        },
        zero="isolation",
        controls=(
            ("the first tenant sees its own records",
             "the first tenant does not see its own records"),
            ("the second tenant sees its own records",
             "the second tenant does not see its own records"),
        ),
        unseen="so seeing nothing of the other one's says nothing. Check its credential, what "
        "plant adds,",
        checked=("control: tenants see own records", "each tenant does not see its own records"),
        trials="between two tenants",
        there="where the other tenant had the record",
        shown="Each tenant sees its own record; of the record of the other one,",
        differ="replies to one tenant differ where the other one has the record",
        whose="one that the other tenant has",
        did="One tenant planted records, and another one asked about them.",
        remedy="add the tenant to the key of every store, cache and memory",
    ),
    "deletion": Staged(
        deleted=True,
        keys={
            "insertion": (("add", "replace"), "whole records are planted"),
            "documents": ((0,), "the application has documents of its own"),
            "state_check": ((0.0,), SHARED),
            "clients": ((1,), "no other tenant asks"),
        },
        zero="as if never stored",
        controls=(
            ("records are seen before they are deleted",
             "records are not seen before they are deleted"),
        ),
        unseen="so seeing nothing of them afterwards says nothing. Check what plant adds,",
        checked=("records are seen until deleted", "records are not seen, deleted or not"),
        trials="with a record that was planted, used and deleted, or never planted,",
        there="where a record had been deleted",
        shown="A record is seen before it is deleted; afterwards,",
        differ="replies differ where a record was deleted",
        whose="one that was deleted",
        did="Records were planted, used and deleted before the question.",
        remedy="delete what was made of it too: index, caches, summaries",
        law=ARTICLE_17,
    ),
}  # fmt: skip
