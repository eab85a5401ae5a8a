"""Configuration files of two tunnels between a laptop and a relay of its user's own."""
