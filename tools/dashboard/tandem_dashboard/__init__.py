"""A page with live charts, served on loopback by the user who opens it; docs/decisions/0016 says why not by the daemon."""
