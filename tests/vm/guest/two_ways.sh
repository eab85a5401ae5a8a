# To be sourced: this system, which systemd has started, becomes a laptop with two ways to the one server, in the namespace "srv".
#   its configuration (tandem.toml) and its downloads, as an administrator would have and see them
. "$(dirname "$0")/web.sh"
work=/run/work
url=http://10.71.9.9
export DEBIAN_FRONTEND=noninteractive SYSTEMD_PAGER='' SYSTEMD_COLORS=0
mkdir -p $work/www
fact() { echo "fact $*"; }
stage() { echo "stage $(cut -d' ' -f1 /proc/uptime) $*"; }
property() { systemctl show -p "$1" --value tandemd; }
wait_for() # SECONDS COMMAND...
{
  local until=$((SECONDS + $1))
  shift
  until "$@" &>/dev/null; do
    if [ $SECONDS -ge $until ]; then return 1; fi
    sleep 0.1
  done
}
up() { tandem status --json >$work/status.json; }
download() { curl -sS --max-time 90 $url/${1:-file} | sha256sum | cut -d' ' -f1; } # [NAME]
queued() { tandem status --json | grep -o '"queued": *[0-9]*' | grep -o '[0-9]*$'; }

# The Wi-Fi way carries 40 Mb/s with a round trip of 20 ms.
two_ways()
{
  ip netns add srv
  ip -n srv link set lo up
  for name in all default; do
    sysctl -qw net.ipv4.conf.$name.rp_filter=0
    srv sysctl -qw net.ipv4.conf.$name.rp_filter=0
  done
  ip link add wlan0 type veth peer name w0 netns srv
  ip link add cell0 type veth peer name c0 netns srv
  ip address add 10.71.1.2/24 dev wlan0
  ip -n srv address add 10.71.1.1/24 dev w0
  ip address add 10.71.2.2/24 dev cell0
  ip -n srv address add 10.71.2.1/24 dev c0
  ip -n srv address add 10.71.9.9/32 dev lo
  for link in wlan0 cell0; do ip link set $link up; done
  for link in w0 c0; do ip -n srv link set $link up; done
  ip route add default via 10.71.1.1 dev wlan0 metric 100
  ip route add default via 10.71.2.1 dev cell0 metric 600
  tc -n srv qdisc add dev w0 root netem delay 20ms rate 40mbit limit 400
  # Segments as they are on air: with super-packets one ACK covers so much that there is little to move.
  srv ethtool -K w0 tso off gso off
  head -c 6000000 /dev/urandom >$work/www/file
  # For what needs no more than a download: an emulated processor is slow.
  head -c 2000000 $work/www/file >$work/www/part
  start_web
  fact file "$(sha256sum <$work/www/file | cut -d' ' -f1)"
  fact part "$(sha256sum <$work/www/part | cut -d' ' -f1)"
}

configure() # as installed, but for the names of the interfaces, and for the server, whose address is private
{
  sed -i -e 's/^wifi = .*/wifi = "wlan0"/' -e 's/^cell = .*/cell = "cell0"/' -e 's/^#private_peers.*/private_peers = "as_others"/' /etc/tandem/tandem.toml
}
