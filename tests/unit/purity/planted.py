#!/usr/bin/python3
"""Plants one forbidden call at a time and expects the purity check to find it, and a harmless file to pass."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

PLANTED: dict[str, tuple[str, str]] = {
    "socket": ("#include <sys/socket.h>", "return socket(2, 1, 0);"),
    "send": ("#include <sys/socket.h>", "return static_cast<int>(send(0, nullptr, 0, 0));"),
    "recv": ("#include <sys/socket.h>", "char c; return static_cast<int>(recv(0, &c, 1, 0));"),
    "clock_gettime": ("#include <time.h>", "timespec t; return clock_gettime(CLOCK_MONOTONIC, &t);"),
    "gettimeofday": ("#include <sys/time.h>", "timeval t; return gettimeofday(&t, nullptr);"),
    "time": ("#include <time.h>", "return static_cast<int>(time(nullptr));"),
    "steady_clock": ("#include <chrono>", "return int(std::chrono::steady_clock::now().time_since_epoch().count());"),
    "system_clock": ("#include <chrono>", "return int(std::chrono::system_clock::now().time_since_epoch().count());"),
    "rand": ("#include <stdlib.h>", "return rand();"),
    "random": ("#include <stdlib.h>", "return static_cast<int>(random());"),
    "getrandom": ("#include <sys/random.h>", "char c; return static_cast<int>(getrandom(&c, 1, 0));"),
    "random_device": ("#include <random>", "return static_cast<int>(std::random_device {}());"),
    "open": ("#include <fcntl.h>", 'return open("/dev/null", O_RDONLY);'),
    "fopen": ("#include <stdio.h>", 'return fopen("/dev/null", "r") != nullptr;'),
    "read": ("#include <unistd.h>", "char c; return static_cast<int>(read(0, &c, 1));"),
    "write": ("#include <unistd.h>", 'return static_cast<int>(write(1, "", 0));'),
    "printf": ("#include <stdio.h>", 'return printf("%d", argument);'),
    "puts": ("#include <stdio.h>", 'return puts("x");'),
    "cout": ("#include <iostream>", "std::cout << argument; return 0;"),
    "ofstream": ("#include <fstream>", 'std::ofstream file { "x" }; return 0;'),
    "thread": ("#include <thread>", "std::thread { [] {} }.join(); return 0;"),
    "mutex": ("#include <condition_variable>", "std::condition_variable c {}; c.notify_one(); return 0;"),
    "getenv": ("#include <stdlib.h>", 'return getenv("HOME") != nullptr;'),
    "syslog": ("#include <syslog.h>", 'syslog(1, "x"); return 0;'),
}

HARMLESS = (
    "#include <algorithm>\n#include <cmath>\n#include <cstring>\n#include <random>\n#include <string>\n#include <vector>",
    "std::vector<double> v(static_cast<std::size_t>(argument), 1); std::mt19937 r { 1 }; std::sort(v.begin(), v.end());"
    " std::string s = std::to_string(std::exp2(v[0])); return static_cast<int>(r() + std::strlen(s.c_str()));",
)


def compile_to(path: Path, compiler: str, include: str, body: str) -> Path:
    """Compiles one function with this body, optimised as a release is; what the same compiler made of the same words before is taken again."""
    source, target = path.with_suffix(".cc"), path.with_suffix(".o")
    command = [compiler, "-std=c++20", "-O2", "-D_FORTIFY_SOURCE=2", "-c", str(source), "-o", str(target)]
    stamp = Path(shutil.which(compiler) or compiler).resolve().stat()
    text = (f"// {' '.join(command)}, {stamp.st_size} bytes, {stamp.st_mtime_ns}\n"
            f"{include}\nint planted(int argument);\nint planted(int argument) {{ (void)argument; {body} }}\n")
    if not target.exists() or not source.exists() or source.read_text() != text:
        target.unlink(missing_ok=True)
        source.write_text(text)
        subprocess.run(command, check=True)
    return target


def main() -> int:
    """Compiles, checks, counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--directory", type=Path, required=True)
    options = parser.parse_args()
    check = Path(__file__).with_name("purity.py")

    def verdict(path: Path) -> int:
        return subprocess.run([sys.executable, str(check), str(path)], capture_output=True, check=False).returncode

    missed = []
    for name, (include, body) in PLANTED.items():
        target = compile_to(options.directory / f"planted_{name}", options.compiler, include, body)
        if verdict(target) != 1:
            missed.append(name)
    harmless = compile_to(options.directory / "harmless", options.compiler, *HARMLESS)
    if verdict(harmless) != 0:
        missed.append("harmless code is refused")
    print(f"{len(PLANTED)} planted calls, {len(missed)} not as expected{': ' if missed else ''}{', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
