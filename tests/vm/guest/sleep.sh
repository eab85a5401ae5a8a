#!/bin/bash
# The lab's test of a machine that sleeps, where the clock is nobody else's.
#   sleep.sh PROGRAMS TEST
set -euo pipefail
export TANDEM_BIN_DIR=$1 TANDEM_OWN_CLOCK=yes
exec /usr/bin/python3 -B -m pytest -p no:cacheprovider -q -rs "$2"
