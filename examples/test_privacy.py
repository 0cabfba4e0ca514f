"""A test of what a system leaks: pytest examples/test_privacy.py --privacy-live"""

import pytest
from leakbound_hosts.pytest_plugin import PrivacyAudit
from user_system import answer

ROWS = [(f"ticket {i}: the parcel is late", "delivery" if i % 2 else "refund") for i in range(60)]


@pytest.mark.privacy
def test_answers_satisfy_epsilon_1(privacy_audit: PrivacyAudit) -> None:
    result = privacy_audit(rows=ROWS, system=answer, epsilon=1, pairs=40)
    privacy_audit.check(result)
