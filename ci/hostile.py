#!/usr/bin/env python3
"""Runs a command on the first processor, and stops it and its children for 3 s at random moments."""

import os
import random
import signal
import subprocess
import sys
import time

random = random.Random(os.environ.get("SEED"))
command = subprocess.Popen(["taskset", "-c", "0", *sys.argv[1:]], start_new_session=True)
while True:
    try:
        # Most programs are over after some seconds; each is stopped at least once.
        command.wait(random.choice((0.1, 0.5, 2, 5, 10)) * random.random())
        break
    except subprocess.TimeoutExpired:
        os.killpg(command.pid, signal.SIGSTOP)
        time.sleep(3)
        os.killpg(command.pid, signal.SIGCONT)
sys.exit(command.returncode if command.returncode >= 0 else 128 - command.returncode)
