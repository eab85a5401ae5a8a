# To be sourced after radios.sh: the daemon in the namespace "sta", which finds its links by itself. Wants $work and $programs.
tandem() { sta "$programs/tandem" --socket $work/tandem.sock "$@"; }
status() { tandem status --json | tr -d '\n'; }

start_daemon() # as $daemon
{
  cat >$work/tandem.toml <<CONF
[links]
private_peers = "as_others"
[daemon]
socket = "$work/tandem.sock"
[budget]
cell_day = ""
cell_month = ""
[evidence]
share = 0
paths = false
[modules.offload]
enabled = true
[modules.freeze]
enabled = true
CONF
  ip netns exec sta "$programs/tandemd" -c $work/tandem.toml >$work/log 2>&1 &
  daemon=$!
  wait_for 10 tandem status
}
