"""Ids, peers, messages and their encoding: what nodes say to each other."""
