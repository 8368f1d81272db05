"""The trust check: does an approximation choose what the exact method would choose?"""

from onefold.trust_check.check import check_setup, trust
from onefold.trust_check.findings import Draw, TrustCheck

__all__ = ["Draw", "TrustCheck", "check_setup", "trust"]
