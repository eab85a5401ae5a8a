# Completion of tandem(1) for bash. Modules and knobs are asked from the running daemon.

_tandem_modules()
{
  tandem module --json 2>/dev/null | sed -n 's/^    "name": "\([a-z0-9_]*\)".*/\1/p'
}

_tandem_knobs()
{
  local module
  for module in $(_tandem_modules); do
    tandem module "$module" --json 2>/dev/null | sed -n 's/^      "name": "\([a-z0-9_]*\)".*/'"$module"'.\1/p'
  done
}

_tandem()
{
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command="" i
  local commands=" up down status module set links flows top why networks link doctor help trace ab dashboard lab bench sim version "
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ $commands == *" ${COMP_WORDS[i]} "* ]]; then
      command=${COMP_WORDS[i]}
      break
    fi
  done

  case $before in
    --wifi | --cell)
      COMPREPLY=($(compgen -W "auto $(ls /sys/class/net 2>/dev/null)" -- "$word"))
      [[ $before == --cell ]] && COMPREPLY+=($(compgen -W "none" -- "$word"))
      return
      ;;
    --config | -c | --socket)
      COMPREPLY=($(compgen -f -- "$word"))
      return
      ;;
    --module)
      COMPREPLY=($(compgen -W "$(_tandem_modules)" -- "$word"))
      return
      ;;
  esac

  case $command in
    "") COMPREPLY=($(compgen -W "$commands --socket --version --help" -- "$word")) ;;
    up) COMPREPLY=($(compgen -W "--wifi --cell --module --mptcp --set --config --foreground --help" -- "$word")) ;;
    why) COMPREPLY=($(compgen -A hostname -W "--json --help" -- "$word")) ;;
    status | links | flows) COMPREPLY=($(compgen -W "--watch --json --help" -- "$word")) ;;
    networks)
      case $before in
        networks) COMPREPLY=($(compgen -W "forget --json --help" -- "$word")) ;;
        *) COMPREPLY=($(compgen -W "--all --json --help" -- "$word")) ;;
      esac
      ;;
    dashboard) COMPREPLY=($(compgen -W "--port --no-browser --help" -- "$word")) ;;
    doctor) COMPREPLY=($(compgen -W "--config --json --help" -- "$word")) ;;
    link)
      case $before in
        link) COMPREPLY=($(compgen -W "announce" -- "$word")) ;;
        announce) COMPREPLY=($(compgen -W "risk down up" -- "$word")) ;;
        *) COMPREPLY=($(compgen -W "--for --json" -- "$word")) ;;
      esac
      ;;
    version) COMPREPLY=($(compgen -W "--json --help" -- "$word")) ;;
    help) COMPREPLY=($(compgen -W "$commands $(_tandem_modules)" -- "$word")) ;;
    set) [[ $before == set ]] && COMPREPLY=($(compgen -W "$(_tandem_knobs)" -- "$word")) ;;
    module)
      if [[ $before == module ]]; then
        COMPREPLY=($(compgen -W "$(_tandem_modules) --json" -- "$word"))
      else
        COMPREPLY=($(compgen -W "on off --json" -- "$word"))
      fi
      ;;
    trace)
      if [[ $before == trace ]]; then
        COMPREPLY=($(compgen -W "save print explain replay plot anonymise wireshark" -- "$word"))
      elif [[ $before == --module && $COMP_LINE == *" replay "* ]]; then
        COMPREPLY=($(compgen -W "$(_tandem_modules)" -- "$word"))
      elif [[ $COMP_LINE == *" wireshark "* ]]; then
        COMPREPLY=($(compgen -W "--install --remove --help" -- "$word"))
      elif [[ $word == -* && $COMP_LINE == *" plot "* ]]; then
        COMPREPLY=($(compgen -W "--flow --output --help" -- "$word"))
      elif [[ $word == -* && $COMP_LINE == *" anonymise "* ]]; then
        COMPREPLY=($(compgen -W "--output --key --help" -- "$word"))
      elif [[ $word == -* && $COMP_LINE == *" explain "* ]]; then
        COMPREPLY=($(compgen -W "--stalls --stall-ms --local --json --help" -- "$word"))
      elif [[ $word == -* && $COMP_LINE == *" print "* ]]; then
        COMPREPLY=($(compgen -W "--json --bytes --disposition --link --port --why --flow --limit --help" -- "$word"))
      elif [[ $word == -* && $COMP_LINE == *" replay "* ]]; then
        COMPREPLY=($(compgen -W "--module --set --diff --local --no-cell --module-dir --json --help" -- "$word"))
      else
        COMPREPLY=($(compgen -f -- "$word"))
      fi
      ;;
    ab)
      if [[ $before == ab ]]; then
        COMPREPLY=($(compgen -W "$(_tandem_modules) off queued show --null --help" -- "$word"))
      elif [[ $before == --report || $before == show ]]; then
        COMPREPLY=($(compgen -d -- "$word"))
      else
        COMPREPLY=($(compgen -W "--url --upload --requests --figure --smaller --for --warm-up --washout --until --most --report --busy --unvalidated --seed --yes --json --null --" \
          -- "$word"))
      fi
      ;;
    lab)
      if [[ $before == lab ]]; then
        COMPREPLY=($(compgen -W "up down exec run list shell" -- "$word"))
      else
        COMPREPLY=($(compgen -f -- "$word"))
      fi
      ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
  esac
}

complete -F _tandem tandem
