#!/bin/bash
# Output with everything a serial line likes to change.
printf '%s|' "$@"
printf '\n\ttab \xc3\xa9 100%%\nlast line without an end'
exit 42
