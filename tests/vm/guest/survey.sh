#!/bin/bash
# Says, a line each, what this kernel can do for Tandem: "NAME yes" or "NAME no: why".
try() # NAME COMMAND...
{
  local name=$1 said
  shift
  if said=$("$@" 2>&1); then
    echo "$name yes"
  else
    echo "$name no: ${said//$'\n'/ }"
  fi
}

queue_expression()
{
  nft -f - <<'RULES'
table inet probe {
  chain out {
    type filter hook output priority mangle
    tcp flags & (syn | rst) == 0 queue flags bypass to 84
  }
}
RULES
}

ce_by_rule()
{
  nft add chain inet probe ce '{ type filter hook input priority mangle; }' &&
    nft add rule inet probe ce ip ecn ect0 numgen random mod 10000 '<' 300 ip ecn set ce
}

netem()
{
  ip link add name probe0 type veth peer name probe1 && tc qdisc add dev probe0 root netem delay 10ms loss 1% && ip link del probe0
}

fair_queueing()
{
  ip link add name probe0 type veth peer name probe1 && tc qdisc add dev probe0 root fq && ip link del probe0
}

echo "release $(uname -r)"
try nft_queue queue_expression
try nft_ce ce_by_rule
try nfnetlink_queue modprobe nfnetlink_queue
try netns ip netns add probe
try tun modprobe tun
try netem netem
try fq fair_queueing
try wifi modprobe mac80211_hwsim radios=2
try mptcp test -e /proc/sys/net/mptcp/enabled
try write touch /etc/tandem-vm-was-here
