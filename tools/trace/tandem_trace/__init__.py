"""Plots of recordings, copies that can be given away, and what Wireshark needs to understand them."""
