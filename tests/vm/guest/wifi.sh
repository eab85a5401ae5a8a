#!/bin/bash
# The feeder's sources on the kernel's own Wi-Fi stack: association, signal, roam, deauthentication, silence, monitor interfaces.
#   wifi.sh FEEDER_PROBE
# Prints "fact NAME VALUE", and what the sources say, a line each behind the name of the run: "nl {...}".
set -euo pipefail
. "$(dirname "$0")/radios.sh"
probe=$1
mark() { local up rest; read -r up rest </proc/uptime; fact "at_$1" "$up"; }
said() { grep -q "$@"; } # FILE is the last argument
changes() { grep -c '"kind":"wifi"' /run/nl || true; }

start_radios
sta $probe capabilities wlan2 | sed 's/^/before /'
ip netns exec sta $probe nl80211 wlan2 --threshold -70 >/run/nl &
nl=$!
sta setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all \
  $probe nl80211 wlan2 --threshold -70 --seconds 0.3 | sed 's/^/unprivileged /'
sta $probe nl80211 nosuch0 --seconds 0.1 | sed 's/^/missing /'
sta $probe nl80211 lo --seconds 0.1 | sed 's/^/loopback /'

start_station
wait_for 20 associated ''
mark associated
wait_for 5 said '"change":"connected"' /run/nl
bss=$(sta iw dev wlan2 link | awk '/^Connected/ { print $3 }')
n=0 m=1 other=$ap2
[ "$bss" = $ap1 ] || { n=1 m=0 other=$ap1; }
fact first "$bss"
fact second "$other"
wait_for 10 sta ping -c 1 -W 1 10.88.0.1
sta ping -q -c 30 -i 0.02 10.88.0.1 >/dev/null
sta $probe capabilities wlan2 | sed 's/^/after /'

# ---- monitor interfaces
sta iw dev wlan2 interface add mon7 type monitor # somebody else's
sta ip link set mon7 up
ap iw dev wlan$n interface add inject type monitor
ap ip link set inject up
ip netns exec sta $probe monitor wlan2 --ap "$bss" >/run/mon1 &
mon=$!
wait_for 10 said '"type":"beacon"' /run/mon1
sta ping -q -c 20 -i 0.02 10.88.0.1 >/dev/null
# Two attempts of one frame, of which hwsim makes none by itself; one of a stranger, which the filter holds back; and a beacon of a
# stranger, too.
ap python3 - "$bss" $station <<'PY'
import socket, struct, sys
bss, station = (bytes.fromhex(a.replace(":", "")) for a in sys.argv[1:3])
stranger = bytes.fromhex("020000009999")
# rate 6 Mb/s; transmit flags: no acknowledgement wanted, the number is ours
radiotap = struct.pack("<BBHIBxH", 0, 0, 12, 1 << 2 | 1 << 15, 12, 0x18)
def frame(control, to, by): return radiotap + struct.pack("<HH6s6s6sH", control, 0, to, by, by, 0x123 << 4) + bytes(40)
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
    raw.bind(("inject", 0))
    for one in (frame(0x0208, station, bss), frame(0x0a08, station, bss), frame(0x0208, stranger, stranger), frame(0x0080, b"\xff" * 6, stranger)):
        raw.send(one)
PY
wait_for 5 said '"retry":true' /run/mon1
fact monitors_during "$(sta iw dev | awk '$1 == "Interface" { print $2 }' | sort | tr '\n' ' ')"
fact flags "$(sta iw dev tandem-mon0 info | tr -d '\t' | tr '\n' ' ')"
kill -9 $mon
wait $mon 2>/dev/null || true
fact monitors_killed "$(sta iw dev | awk '$1 == "Interface" { print $2 }' | sort | tr '\n' ' ')"
ip netns exec sta $probe monitor wlan2 --ap "$bss" >/run/mon2 &
mon=$!
wait_for 10 said '"type":"beacon"' /run/mon2
# Without its interface the source ends; it comes back with a new one.
sta iw dev tandem-mon0 del
wait_for 10 said '"problem":"[^"]' /run/mon2
wait_for 10 said '"problem":""' /run/mon2
kill -TERM $mon
wait $mon
fact monitors_ended "$(sta iw dev | awk '$1 == "Interface" { print $2 }' | sort | tr '\n' ' ')"
sta ip link add tandem-mon0 type bridge
sta $probe monitor wlan2 --seconds 0.1 | sed 's/^/taken /'
fact taken_still "$(sta ip -br link show tandem-mon0 | wc -l)"
sta ip link del tandem-mon0
sta $probe monitor:mon7 wlan2 --ap "$bss" --seconds 1 | sed 's/^/given /'
sta $probe monitor:wlan2 wlan2 --seconds 0.1 | sed 's/^/ethernet /'
sta $probe monitor:nosuch0 wlan2 --seconds 0.1 | sed 's/^/nomonitor /'
for file in mon1 mon2; do sed "s/^/$file /" /run/$file; done
sta iw dev mon7 del
ap iw dev inject del

# ---- signal
strength 0 -100; strength 1 -100
wait_for 15 said signal_low /run/nl
strength 0 -50; strength 1 -50
before=$(changes)
wait_for 15 eval '[ "$(changes)" -gt '"$before"' ]'

# ---- roam
mark roam
wpa roam "$other" >/dev/null
wait_for 10 said "\"connected\",\"ap\":\"$other\"" /run/nl
sleep 0.5

# ---- deauthenticated
mark deauthenticated
ap hostapd_cli -p /run/hostapd$m -i wlan$m deauthenticate $station >/dev/null
wait_for 10 said '"by_ap":true' /run/nl
wait_for 20 associated ''
mark associated_again
sleep 0.5

# ---- silence: the access points are out of reach, and nobody says so
mark silent
hears 0 2; hears 1 2
wait_for 20 said '"change":"beacon_loss"' /run/nl
wait_for 20 said '"reason":4' /run/nl
hears 0 1; hears 1 1
mark heard
wait_for 30 associated ''
mark associated_third
sleep 0.3

# ---- the interface goes, and another one of its name comes
kill "$(cat /run/wpa.pid)"
wait_for 5 eval '! associated ""'
sta iw dev wlan2 del
wait_for 5 said '"problem":"[^"]' /run/nl
sta iw phy phy2 interface add wlan2 type managed
wait_for 5 said '"problem":""' /run/nl
kill -TERM $nl
wait $nl
sed 's/^/nl /' /run/nl
fact done yes
