"""Pruning: from many centres to few, with held-out predictions of every size (cawley2002)."""
