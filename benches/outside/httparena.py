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

from turns import BUILD, COUNT, WORK, clone, columns, heads, instructions, patch, run, table, take_turns

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


def serve(timers, workers, *prefix):
    """A server that takes connections."""
    environment = dict(os.environ, TIMERS=timers, WORKERS=str(workers))
    server = subprocess.Popen([*prefix, SERVER], env=environment, stderr=subprocess.PIPE, text=True)
    wait_for_port()
    return server


def load(options, seconds):
    """Requests, and the seconds that they took."""
    script = str(WORK / "requests.lua")
    threads, connections = str(options.generators), str(options.connections)
    address = f"http://127.0.0.1:{PORT}/"
    output = run("wrk", "-t", threads, "-c", connections, "-s", script, "-d", str(seconds), address)
    if re.search("Non-2xx|(connect|read|write) [1-9]", output):
        raise RuntimeError(output)
    requests, taken = re.search(r"(\d+) requests in ([\d.]+)s", output).groups()
    return int(requests), float(taken)


def measure(timers, workers, options):
    """CPU us per request, and requests per second."""
    server = serve(timers, workers)
    try:
        load(options, 1)
        before = cpu_seconds(server.pid)
        requests, taken = load(options, options.seconds)
        used = cpu_seconds(server.pid) - before
    finally:
        server.kill()
        server.wait()
    return used * 1e6 / requests, requests / taken


def count(timers, workers, options):
    """Instructions per request: what more requests take than few."""
    counts = []
    for seconds in (2, 2 * options.seconds):
        server = serve(timers, workers, *COUNT)
        try:
            requests, _ = load(options, seconds)
        finally:
            server.terminate()
            output = server.communicate()[1]
        counts.append((instructions(output), requests))
    (few, few_requests), (more, more_requests) = counts
    return ((more - few) / (more_requests - few_requests),)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", default=ADDRESS, help="where the server's sources come from")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=4, help="of each run")
    parser.add_argument("--workers", default="1,2", help="threads of the runtime")
    parser.add_argument("--generators", type=int, default=1, help="threads of wrk")
    parser.add_argument("--connections", type=int, default=512)
    parser.add_argument("--count", action="store_true", help="counts instructions, by valgrind, instead of time")
    options = parser.parse_args()

    clone(options.repository, COMMIT, FOLDER, "frameworks/hyper", "requests")
    patch(FOLDER, "httparena.patch")
    run("cargo", "build", "--release", "--quiet", cwd=FOLDER / "frameworks" / "hyper", env=BUILD)
    (WORK / "requests.lua").write_text(REQUESTS % FOLDER)

    look = count if options.count else measure
    rows = []
    for workers in options.workers.split(","):
        results = take_turns(options.rounds, CONTENDERS, lambda timers: look(timers, workers, options))
        for timers, runs in results.items():
            rows.append([workers, timers, *columns(runs)])
    table(["workers", "timers", *heads("request", options.count)], rows)


if __name__ == "__main__":
    main()
