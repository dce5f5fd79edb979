#!/usr/bin/env python3
"""Shows that the specs can fail: weakens each of them in one place and checks it.

Each mutant is a change of a copy; the specs are not touched. A mutant that no property catches is
reported as MISSED and the exit status is 1.

    proofs/specs/mutants.py [--list | --check] [part of a name]...

`--check` only looks whether what each mutant changes is still there.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OUT = ROOT / "target" / "specs"
LIMIT_S = 300

ONE = {"Producers": '{"p1"}', "Posts": 1, "Last": 1}
# Without the invariants, so that the liveness property itself is what has to catch it.
FIRES = dict(ONE, only="EveryEntryFires")
TWICE = {"Producers": '{"p1"}', "Posts": 2, "Last": 1}
ROUNDS = {"Producers": '{"p1"}', "Posts": 2, "Last": 2}
TWO = {"Producers": '{"p1", "p2"}', "Posts": 1, "Last": 1}
LEAD = {"Posts": 1}
ONE_SHARD = {"Shards": "{1}", "Posts": 2}

# name: (spec, constants, what is expected to catch it, [(old, new), ...])
MUTANTS = {
    # Arming
    "a producer reads the wake-up time without a fence": (
        "Arming", FIRES, "EveryEntryFires",
        [('pc[p] = "fence" /\\ ~nbuf[p] /\\ ~abuf[p]', 'pc[p] = "fence"'),
         ("at' = [at EXCEPT ![p] = None]", "UNCHANGED at")]),
    "the reaper looks without a fence": (
        "Arming", FIRES, "EveryEntryFires", [('rpc = "fence" /\\ wbuf = Empty', 'rpc = "fence"')]),
    "the reaper sleeps without a look": (
        "Arming", FIRES, "EveryEntryFires",
        [("        /\\ IF asks\n           THEN rpc' = \"pass\"", "        /\\ IF FALSE\n           THEN rpc' = \"pass\"")]),
    "the expiration is published before the notice is posted": (
        "Arming", TWICE, "Covered",
        [("\\* Release: the notice is there before.\nFlushArm(p) == /\\ ebuf[p] /= None /\\ ~nbuf[p]",
          "FlushArm(p) == /\\ ebuf[p] /= None"),
         ("           /\\ UNCHANGED <<now, left, at, nbuf, abuf, ebuf, notices, armed, asks, bell, reaper>>",
          "           /\\ ebuf' = [ebuf EXCEPT ![p] = at[p]]\n"
          "           /\\ UNCHANGED <<now, left, at, nbuf, abuf, notices, armed, asks, bell, reaper>>")]),
    "a producer relies on the bucket without a look at the clock": (
        "Arming", TWICE, "Covered", [("IF clock < at[p]", "IF TRUE")]),
    "the clock is not released by the take": (
        "Arming", TWICE, "Covered", [("           /\\ clock' = cbuf\n           /\\ heap'", "           /\\ UNCHANGED clock\n           /\\ heap'")]),
    "the armed heap forgets a bucket's second round": (
        "Arming", ROUNDS, "Covered",
        [("         /\\ heap' = heap \\cup notices /\\ notices' = {} /\\ rpc' = \"open\"",
          "         /\\ heap' = (IF heap = {} THEN {y \\in notices : \\A z \\in notices : y >= z} ELSE heap)\n"
          "         /\\ notices' = {} /\\ rpc' = \"open\"")]),
    "a notice is judged by the bucket's expiration": (
        "Arming", ROUNDS, "Covered",
        [("         /\\ heap' = heap \\cup notices /\\ notices' = {} /\\ rpc' = \"open\"",
          "         /\\ heap' = heap \\cup {y \\in notices : y = armed} /\\ notices' = {} /\\ rpc' = \"open\"")]),
    "entries of other rounds are not put aside": (
        "Arming", ROUNDS, "EveryEntryFires|Covered|EndsEmpty",
        [("           /\\ inbox' = [y \\in Rounds |-> 0]\n",
          "           /\\ inbox' = [y \\in Rounds |-> IF y <= x THEN 0 ELSE inbox[y]]\n"),
         ("IF y <= x THEN aside[y] ELSE aside[y] + inbox[y]", "aside[y]"),
         ("           /\\ heap' = heap \\ {x}\n", "           /\\ heap' = {}\n")]),
    "the wish is taken back after the notices were read": (
        "Arming", TWICE, "EveryEntryFires|Punctual",
        [("THEN /\\ rpc' = \"begin\" /\\ asks' = FALSE", "THEN /\\ rpc' = \"begin\" /\\ UNCHANGED asks"),
         ("          /\\ rpc' = \"pass\"\n          /\\ UNCHANGED <<now, producers, inbox, armed, asks, bell>>",
          "          /\\ rpc' = \"late\"\n          /\\ UNCHANGED <<now, producers, inbox, armed, asks, bell>>"),
         ("FlushClock == ",
          "Late == rpc = \"late\" /\\ rpc' = \"pass\" /\\ asks' = FALSE\n"
          "        /\\ UNCHANGED <<now, producers, inbox, notices, armed, bell>>\n"
          "        /\\ UNCHANGED <<clock, cbuf, heap, aside, next, wakes, wbuf>>\n\nFlushClock == "),
         ("\\/ Look \\/ Wake\n", "\\/ Look \\/ Wake \\/ Late\n")]),
    "the wish is never taken back": (
        "Arming", ONE, "ComesToRest",
        [("THEN /\\ rpc' = \"begin\" /\\ asks' = FALSE", "THEN /\\ rpc' = \"begin\" /\\ UNCHANGED asks")]),
    "a ring before the sleep is lost": (
        "Arming", ONE, "EveryEntryFires|Punctual",
        [("           ELSE rpc' = \"sleep\" /\\ UNCHANGED wbuf", "           ELSE rpc' = \"clear\" /\\ UNCHANGED wbuf"),
         ("Wake == ",
          "Clear == rpc = \"clear\" /\\ rpc' = \"sleep\" /\\ bell' = FALSE\n"
          "         /\\ UNCHANGED <<now, producers, inbox, notices, armed, asks>>\n"
          "         /\\ UNCHANGED <<clock, cbuf, heap, aside, next, wakes, wbuf>>\n\nWake == "),
         ("\\/ Look \\/ Wake\n", "\\/ Look \\/ Wake \\/ Clear\n")]),
    "a producer rings only if the reaper sleeps for ever": (
        "Arming", ROUNDS, "Punctual", [("IF at[p] < wakes", "IF wakes = Never")]),
    # Rounds
    "the arming before its fix: copies of a round": (
        "Rounds", {"Others": '"copies"'}, "CatchesUp", []),
    "an entry of a later round stays in its tray": (
        "Rounds", {}, "CatchesUp|EveryTimerFires",
        [("THEN Pass([where EXCEPT ![t] = \"aside\"], at, heap, queued, open)",
          "THEN Pass([where EXCEPT ![t] = \"tray\"], at, heap, queued, open)")]),
    "a round that was put aside is not opened": (
        "Rounds", {}, "EveryTimerFires", [('OfRound(t) == where[t] = "aside" /\\ at[t] = x', "OfRound(t) == FALSE")]),
    # Seats
    "a reset decides without the version": (
        "Seats", {}, "NeverTooLate|InItsTick|Decided",
        [("         /\\ \\/ /\\ word = hword\n               /\\ due' = goal",
          "         /\\ \\/ /\\ phase = hword[1] /\\ list\n               /\\ due' = goal"),
         ("            \\/ /\\ word /= hword\n               /\\ hword' = word /\\ hpc' = \"place\" /\\ UNCHANGED due",
          "            \\/ /\\ ~(phase = hword[1] /\\ list)\n               /\\ hword' = word /\\ hpc' = \"place\" /\\ UNCHANGED due")]),
    "a re-filing does not bump the version": (
        "Seats", {}, "NeverTooLate|InItsTick",
        [("                /\\ ver' = Bump(ver) /\\ lies' = to", "                /\\ ver' = ver /\\ lies' = to")]),
    "a reset to before the bucket opens is accepted": (
        "Seats", {}, "NeverTooLate", [('IF goal < filed THEN "timer" ELSE "reset"', 'IF goal < 1 THEN "timer" ELSE "reset"')]),
    "a seat is taken for a timer before its bucket opens": (
        "Seats", {}, "NeverTooLate", [("{d \\in Ticks : d >= hfiled}", "Ticks")]),
    "the list lets go before the payload is out": (
        "Seats", {}, "FreedLast|PayloadOnce|FreedOnce",
        [("        /\\ TakePayload /\\ opc' = \"release\"\n        /\\ UNCHANGED <<now, word, filed, lies, freed, late,",
          "        /\\ TakePayload /\\ opc' = \"release\" /\\ list' = FALSE\n"
          "        /\\ UNCHANGED <<now, phase, due, ver, held, filed, lies, freed, late,")]),
    "the owner fires by load and store": (
        "Seats", {}, "PayloadOnce",
        [("        /\\ \\/ /\\ word = oword\n              /\\ phase' = \"fired\"", "        /\\ \\/ /\\ TRUE\n              /\\ phase' = \"fired\"")]),
    "both parties leave the memory to the other": (
        "Seats", {}, "Reclaimed", [("              \\/ ~held /\\ Free\n", "              \\/ ~held /\\ UNCHANGED freed\n")]),
    "the owner pushes before the place is written": (
        "Seats", {}, "NeverTooLate", [("to' = x /\\ filed' = x", "to' = x /\\ UNCHANGED filed")]),
    # Stop
    "the flag is not read before each payload": (
        "Stop", {}, "AtMostOne", [('IF flag \\/ At("hand") = {}', 'IF At("hand") = {}')]),
    "a closed shard takes timers": (
        "Stop", {}, "AllOut|EachEnds", [('IF closed THEN "refused" ELSE "filed"', '"filed"')]),
    "the stopper ends a role that is taken": (
        "Stop", {}, "HandlerThere|TypeOK",
        [('\\/ /\\ role = "free" /\\ role\' = "ended"\n                /\\ CountOut', '\\/ /\\ role \\in {"free", "taken"} /\\ role\' = "ended"\n                /\\ CountOut')]),
    "what is in hand when the role ends is forgotten": (
        "Stop", {}, "EachEnds|AllOut", [('CountOut == /\\ place\' = Move("hand", "left")', "CountOut == /\\ UNCHANGED place")]),
    "a stopper claims before the end": (
        "Stop", {}, "EachEnds|AllOut", [('Await(s) == /\\ spc[s] = "await" /\\ over', 'Await(s) == /\\ spc[s] = "await"')]),
    "a stop does not ring": (
        "Stop", {}, "TurnersEnd", [("               /\\ bell' = TRUE\n", "               /\\ UNCHANGED bell\n")]),
    "the end of a role does not wake who waits for it": (
        "Stop", {"Turners": '{"reaper", "caller"}'}, "TurnersEnd",
        [('role = "awaited" /\\ role\' = "ending" /\\ wake\' = TRUE', 'role = "awaited" /\\ role\' = "ending" /\\ UNCHANGED wake')]),
    "a role that is given back does not wake who waits for it": (
        "Stop", {}, "TurnersEnd", [('role = "awaited" /\\ role\' = "free" /\\ wake\' = TRUE', 'role = "awaited" /\\ role\' = "free" /\\ UNCHANGED wake')]),
    # Takeover
    "the taker does not fence": (
        "Takeover", {}, "Once",
        [("         /\\ \\/ wbuf /= None /\\ word' = wbuf\n            \\/ wbuf = None /\\ UNCHANGED word\n         /\\ wbuf' = None /\\ pc' = \"decide\"\n"
          "         /\\ UNCHANGED <<stuck, runs, ended, hpc, mine,",
          "         /\\ pc' = \"decide\"\n         /\\ UNCHANGED <<stuck, runs, ended, hpc, wbuf, word, mine,")]),
    "the taker's wish stays in its store buffer": (
        "Takeover", {}, "Once", [('pc = "heavy" /\\ tbuf = ""', 'pc = "heavy"')]),
    "a claim does not look whether anybody takes over": (
        "Takeover", {}, "Once", [('/\\ wanted /\\ hpc\' = "keeps"', '/\\ FALSE /\\ hpc\' = "keeps"'), ("/\\ ~wanted /\\ hpc' = \"run\"", "/\\ hpc' = \"run\"")]),
    "a claimer does not wait for the taker's lock": (
        "Takeover", {}, "Once", [('hpc = "keeps" /\\ ~lock', 'hpc = "keeps"')]),
    "the taker takes what has come further": (
        "Takeover", {}, "Once", [("\\/ /\\ word = seen\n", "\\/ /\\ TRUE\n")]),
    "a reaper does not call the watcher": (
        "Takeover", {}, "OthersRun", [("token' = (token \\/ looks = \"never\")", "UNCHANGED token")]),
    "a reaper reads the watcher's time without a fence": (
        "Takeover", {}, "OthersRun", [('hpc = "fence" /\\ wbuf = None', 'hpc = "fence"')]),
    "the watcher looks again without a fence": (
        "Takeover", {}, "OthersRun",
        [('pc = "fence" /\\ lbuf = ""', 'pc = "fence"'),
         ('IF looks = "never" /\\ Found = None', 'IF (IF lbuf = "" THEN looks ELSE lbuf) = "never" /\\ Found = None')]),
    "the watcher sleeps without a second look": (
        "Takeover", {}, "OthersRun", [('IF looks = "never" /\\ Found = None THEN', 'IF looks = "never" THEN')]),
    "a failed takeover leaves its lock": (
        "Takeover", {}, "HolderEnds|OthersRun|Quiet", [("/\\ tbuf' = \"clear\" /\\ lock' = FALSE", "/\\ tbuf' = \"clear\" /\\ UNCHANGED lock")]),
    # Lead
    "who serves beside the leader does not ring": (
        "Lead", LEAD, "AllServed", [("IF told[t] < wakes THEN Unpark ELSE UNCHANGED token", "UNCHANGED token")]),
    "who serves beside the leader does not look once more": (
        "Lead", ONE_SHARD, "AllServed",
        [("             /\\ Goto(t, \"pass\")\n             /\\ UNCHANGED <<now, rest, work, asks, producer, lead, role, next, nbuf, wakes, wbuf, answers, told, leads>>",
          "             /\\ Goto(t, \"spare\")\n             /\\ UNCHANGED <<now, rest, work, asks, producer, lead, role, next, nbuf, wakes, wbuf, answers, told, leads>>")]),
    "the leader does not look after it has published": (
        "Lead", LEAD, "AllServed", [("~(Earliest < wakes \\/ Called)\n                 /\\ Goto(t, \"sleep\")", "TRUE\n                 /\\ Goto(t, \"sleep\")")]),
    "the leader looks without a fence": (
        "Lead", LEAD, "AllServed", [('pc[t] = "fence" /\\ wbuf = Empty', 'pc[t] = "fence"')]),
    "a lead is taken while it is kept": (
        "Lead", LEAD, "OneLeader", [('\\E u \\in Threads \\ {t} : lead = <<u, "lent">>', '\\E u \\in Threads \\ {t} : lead[1] = u')]),
    "a thread reclaims a lead that another has taken": (
        "Lead", LEAD, "OneLeader|ComesToRest",
        [("\\/ /\\ leads[t] /\\ lead = <<t, \"lent\">>\n", "\\/ /\\ leads[t]\n"), ("~(leads[t] /\\ lead = <<t, \"lent\">>)", "~leads[t]")]),
    "who takes the lead does not answer the doorbell": (
        "Lead", LEAD, "OneLeader", [("               /\\ answers' = t /\\ wbuf' = Awake", "               /\\ UNCHANGED answers /\\ wbuf' = Awake")]),
}


def changed(name):
    """The weakened spec, and which of its changes no longer fits."""
    spec, _, _, edits = MUTANTS[name]
    text = (HERE / f"{spec}.tla").read_text()
    for old, new in edits:
        if text.count(old) != 1:
            return text, f"STALE: {spec}.tla has {text.count(old)} times: {old!r}"
        text = text.replace(old, new)
    return text, None


def run(name):
    """What the checker says of a mutant, and whether that is what catches it."""
    spec, constants, by, _ = MUTANTS[name]
    text, stale = changed(name)
    if stale:
        return stale, False
    folder = OUT / "mutants" / re.sub(r"\W+", "-", name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{spec}.tla").write_text(text)
    config = (HERE / f"{spec}.cfg").read_text()
    if "only" in constants:
        config = re.sub(r"^INVARIANTS.*\n", "", config, flags=re.M)
        config = re.sub(r"^PROPERTIES.*", "PROPERTY " + constants["only"], config, flags=re.M)
    (folder / f"{spec}.cfg").write_text(config)
    values = {key: value for key, value in constants.items() if key != "only"}
    given = [option for key, value in values.items() for option in ("-c", f"{key}={value}")]
    command = ["tla", f"{spec}.tla", "--max-depth", "100000", *given]
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"TOO SLOW: more than {LIMIT_S} s", False
    found = re.search(r"Liveness property violated: (\w+)|Invariant \d+ \((\w+)\) violated", done.stdout)
    if not found:
        clean = done.returncode == 0 and "No errors found" in done.stdout
        return ("MISSED" if clean else "BROKEN: " + done.stdout[-1500:] + done.stderr[-500:]), False
    caught = found.group(1) or found.group(2)
    if caught not in by.split("|"):
        return f"caught by {caught}, and not by {by}", False
    return f"caught by {caught}", True


def main():
    if "--list" in sys.argv:
        return print("\n".join(f"{spec}: {name}" for name, (spec, *_) in MUTANTS.items()))
    if "--check" in sys.argv:
        stale = [f"{name}: {why}" for name in MUTANTS if (why := changed(name)[1])]
        print("\n".join(stale) or f"{len(MUTANTS)} mutants fit")
        sys.exit(bool(stale))
    wanted = [arg.lower() for arg in sys.argv[1:]]
    chosen = [
        name for name in MUTANTS
        if not wanted or any(want in name.lower() or want == MUTANTS[name][0].lower() for want in wanted)
    ]
    if not chosen:
        sys.exit("no mutant has such a name")
    missed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, (outcome, caught) in zip(chosen, pool.map(run, chosen)):
            missed += not caught
            if not caught or os.environ.get("VERBOSE"):
                print(f"{MUTANTS[name][0]}: {name}: {outcome}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} mutants caught")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
