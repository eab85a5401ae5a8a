#!/usr/bin/python3
"""Fails when a static library refers to a socket, clock, file, thread or random function.

Decisions are functions of what they are handed. Code that reads a clock by itself cannot be replayed, so the undefined
symbols of the pure libraries are compared with what such code would need.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

# C functions, by what they would break. Matched whole; glibc's variants (64, 2, at, _chk, __isoc99_, ...) as well.
FORBIDDEN_C: dict[str, str] = {
    "socket": "socket socketpair bind listen accept accept4 connect send sendto sendmsg sendmmsg recv recvfrom recvmsg"
    " recvmmsg setsockopt getsockopt shutdown getaddrinfo gethostbyname if_nametoindex select poll ppoll epoll_create1"
    " epoll_wait epoll_ctl",
    "clock": "time clock clock_gettime clock_getres gettimeofday ftime times localtime gmtime localtime_r gmtime_r mktime"
    " timespec_get timer_create timerfd_create nanosleep clock_nanosleep usleep sleep alarm setitimer",
    "chance": "rand rand_r srand random srandom drand48 lrand48 getrandom getentropy arc4random arc4random_uniform",
    "file": "open openat creat fopen fdopen freopen read pread readv write pwrite writev close fclose fread fwrite fputs"
    " fputc fgets puts putchar printf fprintf vprintf vfprintf dprintf perror ioctl fcntl mmap munmap stat fstat lstat"
    " unlink mkdir opendir readdir syslog vsyslog dlopen dlsym",
    "thread": "pthread_create pthread_join thrd_create sem_wait sem_post fork vfork execve execvp popen system kill raise"
    " signal sigaction sched_yield syscall",
    "environment": "getenv secure_getenv setenv setlocale",
}

# C++ names as nm --demangle writes them.
FORBIDDEN_CPP: dict[str, str] = {
    r"std::chrono::(_V2::)?(system|steady|high_resolution)_clock::now": "clock",
    r"std::random_device::": "chance",
    r"std::(thread|jthread)::": "thread",
    r"std::(condition_variable|__basic_future|__future_base|mutex|recursive_mutex)\b": "thread",
    r"std::basic_(i|o|if|of|f)stream": "file",
    r"std::basic_filebuf": "file",
    r"std::(cout|cerr|clog|cin)\b": "file",
    r"std::ios_base::Init": "file",
    r"std::filesystem::": "file",
    r"^boost::asio|^ev_|^nl_|^nfq_|^pcap_|^mnl_": "socket",
}

BY_NAME = {name: kind for kind, names in FORBIDDEN_C.items() for name in names.split()}
DECORATION = re.compile(r"^(?:__isoc\d+_|__libc_|__)?(?P<name>[a-z][a-z0-9_]*?)(?:64)?(?:_2)?(?:_chk)?$")


def kind_of(symbol: str) -> str | None:
    """What `symbol` (demangled) would break, or None when it is harmless."""
    plain = symbol.split("@", 1)[0]
    if plain in BY_NAME:
        return BY_NAME[plain]
    stripped = DECORATION.match(plain)
    if stripped and stripped["name"] in BY_NAME:
        return BY_NAME[stripped["name"]]
    for pattern, kind in FORBIDDEN_CPP.items():
        if re.search(pattern, plain):
            return kind
    return None


def undefined(library: Path) -> list[tuple[str, str]]:
    """(object file, symbol) for every undefined symbol of a library or object file."""
    output = subprocess.run(
        ["nm", "--undefined-only", "--demangle", "--print-file-name", str(library)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = []
    for line in output.splitlines():
        where, separator, symbol = line.partition(" U ")
        if not separator:
            where, separator, symbol = line.partition(" w ")
        if separator:
            found.append((where.strip().rstrip(":"), symbol.strip()))
    return found


def impurities(library: Path) -> list[str]:
    """A sentence for every forbidden symbol."""
    return [
        f"{Path(where.split(':')[0]).name}({where.rsplit(':', 1)[-1]}): {symbol} ({kind})"
        for where, symbol in undefined(library)
        if (kind := kind_of(symbol)) is not None
    ]


def main() -> int:
    """Checks the libraries of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path, nargs="+", help="static library or object file")
    libraries: list[Path] = parser.parse_args().library
    bad = 0
    for library in libraries:
        symbols = undefined(library)
        if not symbols:
            print(f"{library}: no undefined symbol at all; is this the right file?", file=sys.stderr)
            bad += 1
        found = impurities(library)
        for sentence in found:
            print(sentence, file=sys.stderr)
        bad += len(found)
        print(f"{library.name}: {len(symbols)} undefined symbols, {len(found)} forbidden")
    if bad:
        print(
            "Pure libraries are handed time, seed and bytes; move the call to src/kernel and hand in its result.",
            file=sys.stderr,
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
