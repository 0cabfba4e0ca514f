"""Systems: applications that answer by themselves, audited from outside."""

from leakbound.systems.callable import UserSystem, answerer
from leakbound.systems.load import load_system

__all__ = ["UserSystem", "answerer", "load_system"]
