#!/usr/bin/env python3
"""HttpArena's server on hyper, with the timers of each contender in turn: CPU time per request, and requests per second.

README.md says what is measured. It needs git, cargo and wrk. The port 8080 has to be free.
"""

import argparse
import os
import re
import socket
import subprocess
import time

from turns import BUILD, WORK, clone, patch, run, shown, table, take_turns

ADDRESS = "https://github.com/MDA2AV/HttpArena"
COMMIT = "28606bafd5526c28b8438f630d7dca73b2869e28"
FOLDER = WORK / "httparena"
SERVER = WORK / "build" / "release" / "httparena-hyper"
CONTENDERS = ["none", "tickless", "thread", "alternative", "tokio"]
PORT = 8080

# The requests of its profile `baseline`, in turn: a GET and two kinds of POST.
REQUESTS = """
local requests, at = {}, 0
for number, name in ipairs({"get", "post_cl", "post_chunked"}) do
    requests[number] = io.open("%s/requests/" .. name .. ".raw", "rb"):read("*a")
end
function request()
    at = at %% #requests + 1
    return requests[at]
end
"""


def cpu_seconds(process):
    """What all threads of a process have used."""
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for_port():
    while True:
        try:
            return socket.create_connection(("127.0.0.1", PORT)).close()
        except ConnectionRefusedError:
            time.sleep(0.02)


def measure(timers, workers, options):
    """CPU us per request, and requests per second."""
    load = ["wrk", "-t", str(options.generators), "-c", str(options.connections), "-s", str(WORK / "requests.lua")]
    address = f"http://127.0.0.1:{PORT}/"
    environment = dict(os.environ, TIMERS=timers, WORKERS=str(workers))
    server = subprocess.Popen([SERVER], env=environment)
    try:
        wait_for_port()
        run(*load, "-d", "1", address)
        before = cpu_seconds(server.pid)
        output = run(*load, "-d", str(options.seconds), address)
        used = cpu_seconds(server.pid) - before
    finally:
        server.kill()
        server.wait()
    if re.search("Non-2xx|Socket errors", output):
        raise RuntimeError(output)
    requests, seconds = re.search(r"(\d+) requests in ([\d.]+)s", output).groups()
    return used * 1e6 / int(requests), int(requests) / float(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", default=ADDRESS, help="where the server's sources come from")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=4, help="of each run")
    parser.add_argument("--workers", default="1,2", help="threads of the runtime")
    parser.add_argument("--generators", type=int, default=1, help="threads of wrk")
    parser.add_argument("--connections", type=int, default=512)
    options = parser.parse_args()

    clone(options.repository, COMMIT, FOLDER, "frameworks/hyper", "requests")
    patch(FOLDER, "httparena.patch")
    run("cargo", "build", "--release", "--quiet", cwd=FOLDER / "frameworks" / "hyper", env=BUILD)
    (WORK / "requests.lua").write_text(REQUESTS % FOLDER)

    head = ["workers", "timers", "CPU us per request", "requests/s"]
    rows = []
    for workers in options.workers.split(","):
        results = take_turns(options.rounds, CONTENDERS, lambda timers: measure(timers, workers, options))
        for timers, runs in results.items():
            cpu, rate = zip(*runs)
            rows.append([workers, timers, shown(cpu, 2), shown(rate, 0)])
    table(head, rows)


if __name__ == "__main__":
    main()
