"""Sweeps of the virtual-time simulator."""
