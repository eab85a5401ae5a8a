"""Endurance: transfers through everything that befalls a laptop at once, each held against its checksum; and what is left behind afterwards."""
