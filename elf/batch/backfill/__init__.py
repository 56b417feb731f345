"""Backfills: windows of the past computed from the archive and handed over to the live job."""
