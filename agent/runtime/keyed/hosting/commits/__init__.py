"""The state of guaranteed elements with their standbys: cuts, records, and the copies that are held."""
