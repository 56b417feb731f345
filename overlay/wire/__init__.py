"""Ids, peers, addresses, messages and their encoding: everything nodes exchange. Imports nothing else of the
overlay.
"""
