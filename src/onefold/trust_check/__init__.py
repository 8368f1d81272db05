"""The trust check: does an approximation choose what the exact method would choose?"""

from onefold.trust_check.check import Draw, TrustCheck, trust

__all__ = ["Draw", "TrustCheck", "trust"]
