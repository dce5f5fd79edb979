#!/usr/bin/env python3
"""Shows that the models can fail: weakens the engine one line at a time and runs them.

Each mutant is a change of a copy of the sources; the working tree is not touched. A mutant that
no model catches is reported as MISSED and the exit status is 1.

    loom-tests/mutants.py [--list | --fit | --check] [--every] [--one-of N] [part of a name]...

`--fit` only looks whether what each mutant changes is still there, and `--check` whether each mutant
compiles, which takes seconds for each. A mutant is done with as soon as one model catches it; with
`--every` the others of the file run as well, and all that catch it are named. `--one-of N` chooses a
part of them by chance.
"""

import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "target" / "mutants"
# The workspace as cargo wants to see it: with all members, though few of them are built.
LEFT_OUT = shutil.ignore_patterns("target", ".git")

# The switches of the worlds that the models run in, and the models of the random scheduler; those
# of the others are the model checker's.
WORLDS = {
    "loom": "--cfg loom --cfg crossbeam_loom --cfg crossbeam_sanitize -C debug-assertions",
    "shuttle": "--cfg shuttle -C debug-assertions",
}
SCHEDULED = ("crowd", "suspended")

SYNC = "crates/sync/src/lib.rs"
STACK, LANES = "crates/core/src/inbox/stack.rs", "crates/core/src/inbox/lanes.rs"
SHARD, BUCKET, OPEN = "crates/core/src/shard/mod.rs", "crates/core/src/shard/bucket.rs", "crates/core/src/shard/open.rs"
AGENDA = "crates/core/src/shard/agenda.rs"
FLUSH, CLOSE = "crates/core/src/shard/flush.rs", "crates/core/src/shard/close.rs"
PRODUCER, FREE_LIST, SCAN = "crates/core/src/producer/scheduling.rs", "crates/core/src/memory/free_list.rs", "crates/core/src/shard/scan.rs"
SHARED, COUNTERS = "crates/core/src/memory/shared.rs", "crates/core/src/memory/counters.rs"
GROWING_LIST = "crates/sync/src/growing_list.rs"
SWEEP, TRAY = "crates/core/src/shard/sweep.rs", "crates/core/src/inbox/tray.rs"
WALK = "crates/core/src/inbox/walk.rs"
WHEEL = "crates/core/src/wheel/mod.rs"
HOLDER, REAPING = "crates/core/src/entry/holder.rs", "crates/core/src/entry/reaping.rs"
NODE, WORD, RECLAIM = "crates/core/src/entry/node.rs", "crates/core/src/entry/word.rs", "crates/core/src/entry/reclaim.rs"
HOLD, EXCHANGED = "crates/sync/src/protocol/hold.rs", "crates/core/src/producer/scheduling.rs"
QUEUE = "crates/sync/src/queue.rs"
BLOCK = "crates/core/src/entry/block.rs"
PULSE, GATE = "crates/sync/src/protocol/pulse.rs", "crates/sync/src/protocol/gate.rs"
WATCH = "crates/core/src/reaper/watch.rs"
TWIN, CLOSABLE = "crates/sync/src/protocol/twin.rs", "crates/sync/src/protocol/closable.rs"
STOPS = "crates/sync/src/protocol/stops.rs"
LATCH, REVOCABLE = "crates/sync/src/protocol/latch.rs", "crates/sync/src/protocol/revocable.rs"
ENDING, ROLE = "crates/core/src/reaper/ending.rs", "crates/core/src/reaper/role.rs"
DOORBELL, HOOK = "crates/core/src/doorbell/mod.rs", "crates/core/src/doorbell/hook.rs"
PARKER = "crates/core/src/doorbell/parker.rs"
EARLIEST = "crates/core/src/doorbell/earliest.rs"
LISTENER, AHEAD = "crates/core/src/doorbell/listener.rs", "crates/core/src/reaper/turn.rs"
SERVER, SLOTS = "crates/core/src/reaper/server.rs", "crates/core/src/memory/slots.rs"
TURN = "crates/core/src/reaper/turn.rs"
IN_HAND, STUCK = "crates/core/src/dispatch/in_hand.rs", "crates/core/src/reaper/stuck.rs"
ASYMMETRIC = "crates/core/src/os/asymmetric.rs"

LEAD, GROUP = "crates/core/src/reaper/lead.rs", "crates/core/src/reaper/group.rs"

LAST_LOOK = "if group.earliest() < next || is_called() {"
IN_SPIN = "until_ns, is_called);"
PUSH_ORDER = ("node.as_ptr(),\n                Ordering::AcqRel,", "node.as_ptr(),\n                Ordering::{},")
TAKE_ORDER = ("ptr::null_mut(),\n                Ordering::AcqRel,", "ptr::null_mut(),\n                Ordering::{},")
LOOK_BEFORE_TAKE = (
    "let mut head = self.head.load(Ordering::Acquire);\n        loop {\n            debug_assert!",
    "let mut head = self.head.load(Ordering::{});\n        loop {{\n            debug_assert!",
)
# A fence acquires what a take does.
NO_FENCE = ("        fence(Ordering::SeqCst);\n", "")
# A light fence does not pair with it.
HEAVY_IS_FULL = [("let is_done = system::fence_all();", "let is_done = true;")]
# Nothing notices that a list is taken after its end.
TAKE_IF_CLOSED = [
    ('            debug_assert!(head != closed(), "the taker that closed takes no more");\n            if !head.is_null() {',
     "            if !head.is_null() && head != closed() {"),
    ("return !head.is_null(),", "return !head.is_null() && head != closed(),"),
]
EXCHANGE = (
    "word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire)",
    "word.compare_exchange(from.0, to.0, Ordering::{}, Ordering::{})",
)

RING = "        if self.doorbell.ring_before(place.expiration) {\n            return Ok(true);\n        }\n"
ANNOUNCE = "        // SAFETY: the caller alone holds it.\n        unsafe { notice.as_ref().announce(place) };\n"
POST = ("        // SAFETY: the caller alone holds it; it stays allocated until the owner has read it.\n"
        "        unsafe { self.notices.push(notice) }?;\n")


def with_order(change, *orders):
    return (change[0], change[1].format(*orders))


# name: (models, [(file, [(old, new), ...]), ...])
MUTANTS = {
    # BUCKET-PUSH
    "push without Release": ("bucket_push", [(STACK, [with_order(PUSH_ORDER, "Acquire")])]),
    "take without Acquire": (
        "bucket_push",
        [(STACK, [with_order(LOOK_BEFORE_TAKE, "Relaxed"), with_order(TAKE_ORDER, "Release")]),
         (TRAY, [NO_FENCE])]),
    "link written after the push": (
        "bucket_push",
        [(STACK, [
            ("            next.store(head, Ordering::Release);\n", ""),
            ("Ok(_) => return Ok(()),", "Ok(_) => {\n next.store(head, Ordering::Release);\n return Ok(());\n}"),
        ])],
    ),
    "push by load and store": (
        "bucket_push",
        [(STACK, [(
            "            match self.head.compare_exchange_weak(",
            "            if self.head.load(Ordering::Acquire) == head {\n"
            "                self.head.store(node.as_ptr(), Ordering::Release);\n"
            "                return Ok(());\n            }\n"
            "            match self.head.compare_exchange_weak(",
        )])],
    ),
    # BUCKET-ARM
    "push Release only": ("bucket_arm", [(STACK, [with_order(PUSH_ORDER, "Release")])]),
    "take Acquire only": ("bucket_arm", [(STACK, [with_order(TAKE_ORDER, "Acquire")])]),
    "flush skips lanes that look empty": (
        "bucket_arm",
        [(TRAY, [("for lane in lanes.each() {", "for lane in lanes.each().iter().filter(|lane| !lane.is_empty()) {")])],
    ),
    "expiration published before the notice is posted": (
        "bucket_arm",
        [(SHARD, [
            ("        bucket.arm(place.expiration);\n        Ok(false)\n", "        Ok(false)\n"),
            (ANNOUNCE, "        bucket.arm(place.expiration);\n" + ANNOUNCE),
        ])],
    ),
    "clock stored after the swap": (
        "bucket_arm",
        [
            (OPEN, [
                ("        self.clock.store(now.get(), Ordering::Relaxed);\n", ""),
                ('        debug_assert!(now <= self.clock(), "the clock is stored before a list is taken");\n', ""),
                ("        owner.agenda.due = Some(open);\n",
                 "        owner.agenda.due = Some(open);\n"
                 "        self.clock.store(now.get(), crate::sync::Ordering::Relaxed);\n"),
            ]),
        ],
    ),
    "rely without looking at the clock": (
        "bucket_arm",
        [(SHARD, [(
            "if !(bucket.is_armed_for(place.expiration) && self.clock() < place.expiration) {",
            "if !bucket.is_armed_for(place.expiration) {",
        )])],
    ),
    "rely decided before the push": (
        "bucket_arm",
        [(SHARD, [
            ("        // SAFETY: passed on to the caller.\n        unsafe { bucket.lanes.push",
             "        let relies = bucket.is_armed_for(place.expiration) && self.clock() < place.expiration;\n"
             "        // SAFETY: passed on to the caller.\n        unsafe { bucket.lanes.push"),
            ("if !(bucket.is_armed_for(place.expiration) && self.clock() < place.expiration) {",
             "if !relies {"),
        ])],
    ),
    "un-publish after the swap, and a test for an empty head": (
        "bucket_arm",
        [
            (SHARD, [
                ("        // SAFETY: passed on to the caller.\n        unsafe { bucket.lanes.push",
                 "        let first = (0..crate::inbox::LANES).all(|lane| bucket.lanes.lane(lane).head().is_null());\n"
                 "        // SAFETY: passed on to the caller.\n        unsafe { bucket.lanes.push"),
                ("if !(bucket.is_armed_for(place.expiration) && self.clock() < place.expiration) {",
                 "if first || !bucket.is_armed_for(place.expiration) {"),
            ]),
            (OPEN, [("        let at = take(bucket, &tray);\n",
                      "        let at = take(bucket, &tray);\n        bucket.arm(Tick::NEVER);\n")]),
        ],
    ),
    "a notice is judged by the bucket's expiration": (
        "bucket_arm",
        [(OPEN, [(
            "            owner.agenda.arm(place);\n",
            "            if self.wheel.bucket(place).unwrap().is_armed_for(place.expiration) {\n"
            "                owner.agenda.arm(place);\n"
            "            }\n",
        )])],
    ),
    "expiration read Relaxed": (
        "bucket_arm",
        [(BUCKET, [("self.expiration.load(Ordering::Acquire)", "self.expiration.load(Ordering::Relaxed)")])],
    ),
    "a notice is posted before its place is written": (
        "bucket_arm", [(SHARD, [(ANNOUNCE, ""), (POST, POST + ANNOUNCE)])]),
    "a flush takes the slot's later round for its own": (
        "bucket_arm",
        [(FLUSH, [("Ends::Due => filed.expiration > from.expiration,", "Ends::Due => filed.expiration > from.expiration && filed.level != 1,"),
                  ("            } else if ends.has(deadline, from.expiration) {", "            } else if ends.has(deadline, from.expiration) || from.level == 1 {")])],
    ),
    "an item is dropped for another round's": (
        "bucket_arm",
        [(OPEN, [("            owner.agenda.arm(place);\n",
                   "            let is_same = |other: Place| (other.level, other.slot) == (place.level, place.slot);\n"
                   "            let _ = owner.armed().any(is_same) || owner.agenda.arm(place);\n")])],
    ),
    "a cascade arms a bucket and leaves it off the agenda": (
        "bucket_arm",
        [(OPEN, [("        if owner.agenda.arm(place) && self.clock() < place.expiration {",
                   "        if self.clock() < place.expiration {")])],
    ),
    "an owner takes its own lists of a bucket where it has filed nothing": (
        "bucket_arm",
        [(BUCKET, [("        if !self.has_own() {\n            // SAFETY", "        if self.has_own() {\n            // SAFETY")])],
    ),
    "an owner's lists look empty before what is in them is shown": (
        "scan",
        [(BUCKET, [("        let at = unsafe { tray.take(&self.lanes, &self.own) };\n",
                    "        self.own_for.store(NONE, Ordering::Relaxed);\n        let at = unsafe { tray.take(&self.lanes, &self.own) };\n")])],
    ),
    "a reader looks into an owner's lists Relaxed": (
        "scan", [(BUCKET, [("match self.own_for.load(Ordering::Acquire)", "match self.own_for.load(Ordering::Relaxed)")])]),
    "what a sweep cuts out keeps its list bit": (
        "bucket_read", [(SWEEP, [("            unsafe { this.end_dead() };\n", "")])]),
    "a reader finds what moves Relaxed": (
        "tray",
        [(TRAY, [("        if let Some(node) = led_to(&self.moving, guard) {",
                  "        let (moving, _) = (self.moving.load(Ordering::Relaxed), guard);\n"
                  "        // SAFETY: as in `led_to`.\n"
                  "        if let Some(node) = unsafe { moving.as_ref() } {")])],
    ),
    "a reader finds that a tray was filled Relaxed": (
        "tray", [(TRAY, [("progress.push(self.begun.load(Ordering::Acquire) as usize)", "progress.push(self.begun.load(Ordering::Relaxed) as usize)")])]),
    "memory is used again Relaxed": (
        "bucket_read",
        [(NODE, [("self.word.store(before.pending(deadline, held).0, Ordering::Release)",
                  "self.word.store(before.pending(deadline, held).0, Ordering::Relaxed)")])],
    ),
    "memory is given away without a fence": (
        "bucket_read",
        [(FREE_LIST, [("use crate::sync::{Ordering, fence, prefetch_to_write};", "use crate::sync::prefetch_to_write;"),
                      ("    fence(Ordering::SeqCst);\n", "")])],
    ),
    "who gives a shard back does not look whether it asks": (
        "lead", [(GROUP, [("        if self.doorbell.is_asked(index) {\n            self.doorbell.ring();\n        }\n", "")])]),
    # DOORBELL
    "no fence in ring_before": ("doorbell", [(DOORBELL, [(
        "        fence(Ordering::SeqCst);\n        // ORDER(DOORBELL): Relaxed - ordered by the fence.",
        "        // ORDER(DOORBELL): Relaxed - ordered by the fence.")])]),
    "a ring leaves no note for the task": (
        "listener", [(LISTENER, [("        self.rung[shard].fetch_or(true, Ordering::Release);\n", "")])]),
    "a waker is taken Relaxed": ("listener", [(LISTENER, [("swap(waker.cast_mut(), Ordering::AcqRel)", "swap(waker.cast_mut(), if waker.is_null() { Ordering::Relaxed } else { Ordering::AcqRel })")])]),
    "a ring wakes no task": ("listener", [(LISTENER, [("        self.exchange(None).iter().for_each(|waker| waker.wake_by_ref());\n", "        drop(self.exchange(None));\n")])]),
    "a task leaves no waker": (
        "listener", [(LISTENER, [("        let _left_before = self.listener.exchange(self.waker.clone());\n", "")])]),
    "a ring for what is due earlier does not set the timer": (
        "listener", [(EARLIEST, [("        if self.at_ns.fetch_min(at_ns, Ordering::AcqRel) > at_ns {", "        if self.at_ns.fetch_min(at_ns, Ordering::AcqRel) == NEVER {")])]),
    "a ring does not lower the time that is wanted": (
        "listener", [(EARLIEST, [("if self.at_ns.fetch_min(at_ns, Ordering::AcqRel) > at_ns {\n            self.settle();", "if self.at_ns.load(Ordering::Acquire) > at_ns {\n            self.timer.set(at_ns);")])]),
    "no second look at the time when the timer was set": (
        "listener", [(EARLIEST, [("            if now_ns == at_ns {", "            if now_ns >= 0 {")])]),
    "a timer that has come is left as it is": (
        "listener", [(EARLIEST, [("        if !has_come {\n", "        if true || !has_come {\n")])]),
    "the time that is wanted changes Relaxed": (
        "listener", [(EARLIEST, [("self.at_ns.swap(at_ns, Ordering::AcqRel)", "self.at_ns.swap(at_ns, Ordering::Relaxed)")])]),
    "a ring lowers the time Relaxed": (
        "listener", [(EARLIEST, [("self.at_ns.fetch_min(at_ns, Ordering::AcqRel)", "self.at_ns.fetch_min(at_ns, Ordering::Relaxed)")])]),
    "a task that listens is not shown": (
        "listener", [(LISTENER, [("self.is_heard.swap(true, Ordering::Acquire)", "self.is_heard.load(Ordering::Acquire)")])]),
    "no look at the notices after looking ahead": (
        "listener", [(AHEAD, [("let busy = self.shard.has_notices();", "let busy = false;")])]),
    "looking ahead publishes nothing": (
        "listener", [(AHEAD, [("        self.shard.doorbell().publish(next);\n", "")])]),
    "no fence in publish": ("doorbell", [(DOORBELL, [(
        "        }\n        fence(Ordering::SeqCst);\n    }", "        }\n    }")])]),
    "wake-up time read before the notice is posted": (
        "doorbell",
        [(SHARD, [
            (RING, ""),
            (ANNOUNCE, RING + ANNOUNCE),
        ])],
    ),
    "notices looked at before the wake-up time is published": (
        "doorbell",
        [(SERVER, [
            ("        group.doorbell.publish(next);\n",
             "        let heard = is_called();\n        group.doorbell.publish(next);\n"),
            (LAST_LOOK, "if group.earliest() < next || heard || engine.is_stopping() {"),
        ])],
    ),
    "the wake-up time is taken back after the turn": (
        "doorbell",
        [
            (DOORBELL, [("Bell::None | Bell::Hook(_) => {}\n        }\n        self.retract();", "Bell::None | Bell::Hook(_) => {}\n        }")]),
            (SERVER, [("            let has_worked = self.pass(self.clock.now_ns());", "            let has_worked = self.pass(self.clock.now_ns());\n            self.group.doorbell.retract();"),
                      ("        group.doorbell.sleep(timeout, ends_ns);\n", "        group.doorbell.retract();\n        group.doorbell.sleep(timeout, ends_ns);\n")]),
        ],
    ),
    "a ring relies on the one before it": (
        "suspended", [(PARKER, [("fetch_or(RUNG, Ordering::AcqRel) & ASLEEP != 0", "fetch_or(RUNG, Ordering::AcqRel) == ASLEEP")])]),
    "who is rung takes it Relaxed": ("doorbell", [(PARKER, [("swap(0, Ordering::Acquire)", "swap(0, Ordering::Relaxed)")])]),
    "a ring looks before it says so": (
        "doorbell", [(PARKER, [(
            "if self.futex.word().fetch_or(RUNG, Ordering::AcqRel) & ASLEEP != 0 {",
            "let is_asleep = self.futex.word().load(Ordering::Acquire) & ASLEEP != 0;\n        self.futex.word().fetch_or(RUNG, Ordering::AcqRel);\n        if is_asleep {")])]),
    "a reaper in user space does not look who asks": (
        "spin", [(SERVER, [(IN_SPIN, "until_ns, || engine.is_stopping());")])]),
    "a reaper in user space looks for no stop": (
        "spin", [(SERVER, [(IN_SPIN, "until_ns, || group.is_asked());")])]),
    "who posts a notice does not ask": (
        "doorbell", [(SHARD, [("        self.doorbell.ask(self.group_index);\n        if self.doorbell.ring_before(place.expiration) {",
                               "        if self.doorbell.ring_before(place.expiration) {")])]),
    "who wants a sweep does not ask": (
        "doorbell", [(SHARD, [("            self.doorbell.ask(self.group_index);\n            self.doorbell.ring();", "            self.doorbell.ring();")])]),
    "a wish is taken back after the turn": (
        "doorbell", [(GROUP, [("        self.doorbell.take_ask(index);\n", ""),
                              ("        self.next[index].store(next.get(), Ordering::Relaxed);\n",
                               "        self.doorbell.take_ask(index);\n        self.next[index].store(next.get(), Ordering::Relaxed);\n")])]),
    "who answers does not acquire": (
        "doorbell", [(DOORBELL, [("asks.fetch_and(!bit(shard), Ordering::Acquire);", "asks.fetch_and(!bit(shard), Ordering::Relaxed);")])]),
    "a far timer rings in place of a near one": (
        "doorbell",
        [(DOORBELL, [("        if due.get() >= self.wakes_at.load(Ordering::Relaxed) {\n            return false;\n        }",
                      "        if due.get() >= self.wakes_at.load(Ordering::Relaxed) {\n            self.retract();\n            return false;\n        }")])],
    ),
    "one producer rings for all": (
        "doorbell",
        [(DOORBELL, [("        self.ring_but_hooks()\n",
                      "        let (no, yes) = (Ordering::Relaxed, Ordering::Relaxed);\n"
                      "        let word = self.wakes_at.load(no);\n"
                      "        self.wakes_at.compare_exchange(word, AWAKE, no, yes).is_ok() && self.ring_but_hooks()\n")])],
    ),
    "expiration published before the ring": (
        "doorbell",
        [(SHARD, [(RING + "        bucket.arm(place.expiration);\n", "        bucket.arm(place.expiration);\n" + RING)])],
    ),
    "expiration published before the hook is called": (
        "doorbell",
        [(SHARD, [(RING, RING.replace("return Ok", "bucket.arm(place.expiration);\n            return Ok"))])],
    ),
    "expiration published inside of the hook that is to be called": (
        "doorbell",
        [(SHARD, [("        if !self.doorbell.call_hook(place.expiration) {", "        if !self.doorbell.call_hook(place.expiration) && place.level == 0 {")])],
    ),
    "a hook that was rung inside of its call is not called again": (
        "doorbell",
        [(HOOK, [("self.sleeps.load(Ordering::Relaxed) == before,", "self.sleeps.load(Ordering::Relaxed) >= before,")])],
    ),
    "who takes the place of a loop that asked does not say so": (
        "doorbell",
        [(HOOK, [("            self.asked_by.store(NOBODY, Ordering::Relaxed);\n", "")])],
    ),
    "a sleep is counted after the fence": (
        "doorbell",
        [(DOORBELL, [
            ("        if let Some(hook) = self.hook() {\n            hook.count_sleep();\n        }\n"
             "        fence(Ordering::SeqCst);\n",
             "        fence(Ordering::SeqCst);\n"
             "        if let Some(hook) = self.hook() {\n            hook.count_sleep();\n        }\n"),
        ])],
    ),
    # CANCEL-FIRE
    "fire by load and store": (
        "cancel_fire",
        [(REAPING, [(
            "        if !this.cas(word, word.with_phase(end)) {\n            return None;\n        }",
            "        if this.word() != word {\n            return None;\n        }\n"
            "        this.word.store(word.with_phase(end).0, Ordering::Release);",
        )])],
    ),
    "cancel by load and store": (
        "cancel_fire",
        [(HOLDER, [("if self.cas(word, word.with_phase(Phase::Vacant)) {",
                    "if self.word() == word {\n"
                    "                self.word.store(word.with_phase(Phase::Vacant).0, Ordering::Release);")])],
    ),
    "re-filing by load and store": (
        "cancel_fire",
        [(REAPING, [("!word.is_held() || self.cas(word, word.refiled())",
                     "self.word.store(word.refiled().0, Ordering::Release);\n        true")])],
    ),
    # RESET-FIRE
    "re-filing without a version": (
        "reset_fire",
        [(WORD, [("Word(self.0 & !VERSION | self.next_version())", "self")])],
    ),
    "re-filed place written after the exchange": (
        "reset_fire",
        [(REAPING, [("        self.set_filed(place);\n        !word.is_held() || self.cas(word, word.refiled())",
                     "        let done = !word.is_held() || self.cas(word, word.refiled());\n"
                     "        if done {\n            self.set_filed(place);\n        }\n        done")])],
    ),
    "pushed before it is official": (
        "reset_fire",
        [(FLUSH, [(
            "                if unsafe { this.refile(word, next) } {\n                    owner.counters.add(Count::Cascaded, 1);\n"
            "                    // SAFETY: it was just re-filed there.\n                    unsafe { self.push(owner, entry, next) };\n                    return moved();\n                }",
            "                this.set_filed(next);\n                // SAFETY: a mutant.\n                unsafe { self.push(owner, entry, next) };\n"
            "                // SAFETY: a mutant.\n                if unsafe { this.refile(word, next) } {\n                    return moved();\n                }",
        )]),
         (NODE, [("pub(super) fn set_filed", "pub(crate) fn set_filed")])],
    ),
    "reset by load and store": (
        "reset_fire",
        [(HOLDER, [("if self.cas(word, word.with_deadline(deadline)) {",
                    "if self.word() == word {\n"
                    "                self.word.store(word.with_deadline(deadline).0, Ordering::Release);")])],
    ),
    "reset does not look at the place": (
        "reset_fire",
        [(HOLDER, [("deadline < opens || opens <= due", "opens <= due")])],
    ),
    # SEAT
    "a failed taking of a seat acquires nothing": (
        "seat", [(HOLDER, [with_order(EXCHANGE, "AcqRel", "Relaxed")])]),
    "exchange without Release": ("seat", [(HOLDER, [with_order(EXCHANGE, "Acquire", "Acquire")])]),
    "word read Relaxed": ("seat", [(NODE, [("Word(self.word.load(Ordering::Acquire))", "Word(self.word.load(Ordering::Relaxed))")])]),
    "a seat is taken by load and store": (
        "seat",
        [(HOLDER, [("        word.in_list() && unsafe { Entry::cas_last(this, word, word.pending(deadline, held)) }",
                    "        if word.in_list() {\n"
                    "            unsafe { this.as_ref() }.word.store(word.pending(deadline, held).0, Ordering::Release);\n"
                    "        }\n        word.in_list()")])],
    ),
    "a vacancy is unlinked by load and store": (
        "seat",
        [(REAPING, [("        let is_done = unsafe { Entry::cas_last(this, word, word.unlisted()) };\n        is_done.then_some(!word.is_held())",
                     "        unsafe { this.as_ref() }.word.store(word.unlisted().0, Ordering::Release);\n        Some(!word.is_held())")])],
    ),
    "payload put after the seat is taken": (
        "seat",
        [(PRODUCER, [
            ("        unsafe { entry.as_ref().put_payload(ManuallyDrop::into_inner(payload)) };\n", ""),
            ("            self.stock.counters.add(Count::Seated, 1);\n            return Ok((entry, Deferred::NOTHING));\n        }\n",
             "            // SAFETY: a mutant.\n            unsafe { entry.as_ref().put_payload(ManuallyDrop::into_inner(payload)) };\n"
             "            self.stock.counters.add(Count::Seated, 1);\n            return Ok((entry, Deferred::NOTHING));\n        }\n"
             "        // SAFETY: a mutant.\n        unsafe { entry.as_ref().put_payload(ManuallyDrop::into_inner(payload)) };\n"),
        ])],
    ),
    "reuse without a version, exchange without Acquire": (
        "seat",
        [
            (WORD, [("| self.next_version() | phase | held | LIST", "| (self.0 & VERSION) | phase | held | LIST")]),
            (HOLDER, [with_order(EXCHANGE, "Release", "Acquire")]),
        ],
    ),
    # RELEASE
    "the list lets go in the firing exchange": (
        "release",
        [(REAPING, [
            ("if !this.cas(word, word.with_phase(end)) {", "if !this.cas(word, word.with_phase(end).unlisted()) {"),
        ])],
    ),
    "the list bit is cleared without Release": (
        "release", [(REAPING, [("Word::KEEP_ALL_BUT_LIST, Ordering::AcqRel", "Word::KEEP_ALL_BUT_LIST, Ordering::Acquire")])]),
    "the list bit is cleared without Acquire": (
        "release", [(REAPING, [("Word::KEEP_ALL_BUT_LIST, Ordering::AcqRel", "Word::KEEP_ALL_BUT_LIST, Ordering::Release")])]),
    "the list bit is cleared by load and store": (
        "release",
        [(REAPING, [(
            "let before = Word(this.word.fetch_and(Word::KEEP_ALL_BUT_LIST, Ordering::AcqRel));",
            "let before = this.word();\n        this.word.store(before.0 & Word::KEEP_ALL_BUT_LIST, Ordering::Release);")])],
    ),
    "the holder frees whether or not the list has let go": (
        "release", [(HOLDER, [("            if !word.in_list() {\n                return Some(word);", "            if word.in_list() || !word.in_list() {\n                return Some(word);")])]),
    "both let go by load and store": (
        "release",
        [(HOLDER, [("            if unsafe { Entry::cas_last(this, word, word.unheld()) } {\n                return None;",
                    "            if unsafe { this.as_ref() }.word() == word {\n                unsafe { this.as_ref() }.word.store(word.unheld().0, Ordering::Release);\n                return None;")])],
    ),
    "nobody takes in what fired without a handle": (
        "release", [(FLUSH, [("        if mine {", "        if mine && self.batch.is_empty() {")])]),
    "an unlinked seat is taken for the reaper's memory": (
        "release", [(REAPING, [("is_done.then_some(!word.is_held())", "is_done.then_some(true)")])]),
    "an entry ends after its list has let go of it": (
        "freed", [(REAPING, [("            return None;\n        }\n        prepare();\n", "            return None;\n        }\n"),
                             ("        let mine = !before.is_held();\n", "        let mine = !before.is_held();\n        prepare();\n")])]),
    "who has a handle of an engine that is gone does not wait for readers": (
        "release", [(SHARED, [("    unsafe { after_readers(free) };\n", "    free();\n"),
                              ("use crate::entry::{Entry, after_readers};", "use crate::entry::Entry;")])]),
    "a cancel that finds the engine gone frees at once": (
        "release", [("crates/core/src/producer/cancel.rs", [("            if unsafe { Entry::let_go(entry) } {\n", "            if unsafe { Entry::let_go(entry) } || true {\n")])]),
    # DEPOT
    "a block that stays although it is whole is not listed": (
        "block", [("crates/core/src/memory/blocks.rs", [("                    block.list();\n", "")])]),
    "a vacancy moves until it is unlinked": (
        "freed", [(FLUSH, [("                moved();\n                // SAFETY: the owner holds it; `word` is vacant.\n                match unsafe { Entry::unlink(entry, word) } {",
                           "                // SAFETY: the owner holds it; `word` is vacant.\n                let unlinked = unsafe { Entry::unlink(entry, word) };\n                moved();\n                match unlinked {")])]),
    "what is re-filed is passed before it moves": (
        "scan", [(FLUSH, [("            if !is_due {\n                // SAFETY: the tray showed it.\n                unsafe { tray.set_moving(entry) };\n            }\n            // SAFETY: the tray showed it.\n            unsafe { tray.pass(&mut at, entry) };\n",
                           "            // SAFETY: the tray showed it.\n            unsafe { tray.pass(&mut at, entry) };\n            if !is_due {\n                // SAFETY: a mutant.\n                unsafe { tray.set_moving(entry) };\n            }\n")])]),
    "the first shard's asking is not heard": (
        "lead", [(GROUP, [("self.doorbell.asked().any(|index| self.next(index).is_some())", "self.doorbell.asked().any(|index| index > 0 && self.next(index).is_some())")])]),
    "take without Acquire (depot)": ("depot", [(SLOTS, [(
        "let value = place.swap(ptr::null_mut(), Ordering::Acquire);",
        "let value = place.swap(ptr::null_mut(), Ordering::Relaxed);")])]),
    "take by load and store": ("depot", [(SLOTS, [(
        "let value = place.swap(ptr::null_mut(), Ordering::Acquire);",
        "let value = place.load(Ordering::Acquire);\n        place.store(ptr::null_mut(), Ordering::Relaxed);")])]),
    "put by load and store": ("depot", [(SLOTS, [(
        "if place.compare_exchange(free, value, Ordering::Release, Ordering::Relaxed).is_ok() {",
        "if place.load(Ordering::Relaxed) == free {\n                place.store(value, Ordering::Release);")])]),
    # BUCKET-READ
    "memory is freed without waiting for readers": (
        "freed", [("crates/core/src/memory/blocks.rs", [("    unsafe { after_readers(free) };\n", "    unsafe { after_readers(|| ()) };\n    free();\n")])]),
    # TAKEOVER
    "payloads are in hand Relaxed": (
        "takeover", [(IN_HAND, [("self.word.store(word, Ordering::Release);", "self.word.store(word, Ordering::Relaxed);"), ("self.word.store(word | FENCED, Ordering::Release);", "self.word.store(word | FENCED, Ordering::Relaxed);")])]),
    "a takeover ignores what was claimed since": (
        "takeover", [(IN_HAND, [("!is_fenced || self.word.load(Ordering::Acquire) != seen.0",
                                 "!is_fenced || self.word.load(Ordering::Acquire) == 0")])]),
    "a claim is not fenced": ("takeover", [(IN_HAND, [("        asymmetric::light();\n    }\n", "    }\n")])]),
    "a takeover is fenced on one side alone": ("takeover", [(ASYMMETRIC, HEAVY_IS_FULL)]),
    "a takeover is done though the system refuses to fence": (
        "takeover", [(IN_HAND, [("asymmetric::heavy() || seen.0 & FENCED != 0", "asymmetric::heavy() || true")])]),
    "a claim says that it was fenced in full and was not": (
        "takeover", [(IN_HAND, [("        fence(Ordering::SeqCst);\n", "")])]),
    "a refusal to fence is not noted": ("takeover", [(ASYMMETRIC, [("        system::answer().store(REFUSES, Ordering::Relaxed);\n", "")])]),
    "who fences in full does not say so": ("takeover", [(IN_HAND, [("self.word.store(word | FENCED, Ordering::Release);", "self.word.store(word, Ordering::Release);")])]),
    "a heavy fence is a full one": ("asymmetric", [(ASYMMETRIC, HEAVY_IS_FULL)]),
    "a heavy fence is none for full ones": (
        "asymmetric", [(ASYMMETRIC, [("    fence(Ordering::SeqCst);\n    let is_done", "    let is_done")])]),
    "who claims does not look": ("takeover", [(IN_HAND, [("self.is_wanted() && !self.keeps(at, word)", "false && !self.keeps(at, word)")])]),
    "a claim that does not hold stays": (
        "takeover", [(IN_HAND, [("            self.word.store(before, Ordering::Relaxed);\n", "")])]),
    "who closes does not look": (
        "takeover", [(IN_HAND, [("        if self.hand_over.is_wanted() && self.hand_over.taken_from().is_some() {\n            self.is_lost",
                                 "        if false {\n            self.is_lost")])]),
    "nobody notes what was taken over": (
        "takeover", [(IN_HAND, [("        *taken_from = Some(seen.0 & CLAIMED);\n", "")])]),
    "a slow look notes its time over a later one": (
        "takeover", [(STUCK, [("self.since_ns.fetch_max(now_ns, Ordering::Relaxed);", "self.since_ns.store(now_ns, Ordering::Relaxed);")])]),
    "a look reads the note without Acquire": (
        "takeover", [(STUCK, [("let noted = self.seen.load(Ordering::Acquire);", "let noted = self.seen.load(Ordering::Relaxed);")])]),
    "a look notes the word before the time": (
        "takeover", [(STUCK, [("            self.since_ns.fetch_max(now_ns, Ordering::Relaxed);\n", ""),
                              ("            if changed.is_err_and(", "            self.since_ns.fetch_max(now_ns, Ordering::Relaxed);\n            if changed.is_err_and(")])]),
    "a takeover leaves what is seen of the holder before": (
        "takeover", [(ROLE, [("        let before = self.last_check.swap(look, Ordering::Release);\n",
                             "        let before = look;\n"),
                             ("        unsafe { after_readers(move || drop(Box::from_raw(before))) };\n",
                             "        unsafe { after_readers(move || std::mem::forget(Box::from_raw(before))) };\n")])]),
    "who is back calls nobody": (
        "takeover", [(SERVER, [("            self.watch.iter().for_each(|watch| watch.call());\n", "")])]),
    "who is left over is counted late": (
        "takeover", [(ENDING, [("        let mut end = self.lock();\n        let in_hand = word.take_over(seen, lost)?;\n        end.roles += 1;\n        drop(end);\n",
                                "        let in_hand = word.take_over(seen, lost)?;\n        self.lock().roles += 1;\n")])]),
    "who was taken over gives the role back": (
        "takeover", [(ENDING, [("        if in_hand.is_taken_over() {\n            return self.ending.role_ended(Payloads::new());\n        }\n",
                                "        if in_hand.is_taken_over() {\n            self.ending.role_ended(Payloads::new());\n        }\n")])]),
    "two owners count in one place": ("takeover", [(TURN, [("        owner.change_counters(self.shared);\n", "")])]),
    "a shard that is closed counts where it did before": (
        "takeover", [(CLOSE, [("        owner.change_counters(shared);\n", "")])]),
    "what a takeover left is forgotten": (
        "takeover", [(TURN, [("        if !in_hand.payloads().is_empty() {\n", "        if false {\n")])]),

    "a hand-over is not fenced": (
        "takeover", [(WATCH, [("        fence(Ordering::SeqCst);\n        // ORDER(TAKEOVER): Relaxed, both - ordered by the fence.\n",
                                               "        // ORDER(TAKEOVER): Relaxed, both - ordered by the fence.\n")])]),
    "a watch is not fenced": (
        "takeover", [(WATCH, [("        self.at_ns.store(looks_at_ns, Ordering::Relaxed);\n        fence(Ordering::SeqCst);\n",
                                               "        self.at_ns.store(looks_at_ns, Ordering::Relaxed);\n")])]),
    "a watcher takes the mark off after its fence": (
        "takeover", [(WATCH, [("        self.alarm_ns.store(0, Ordering::Relaxed);\n        self.at_ns.store(looks_at_ns, Ordering::Relaxed);\n        fence(Ordering::SeqCst);\n",
                               "        self.at_ns.store(looks_at_ns, Ordering::Relaxed);\n        fence(Ordering::SeqCst);\n        self.alarm_ns.store(0, Ordering::Relaxed);\n")])]),
    "an alarm is marked and not set": (
        "takeover", [(WATCH, [("            alarm.set(Some(latest_ns));\n", "")])]),
    "an alarm is marked after it was set": (
        "takeover", [(WATCH, [("            self.alarm_ns.store(latest_ns, Ordering::Relaxed);\n            alarm.set(Some(latest_ns));\n",
                               "            alarm.set(Some(latest_ns));\n            self.alarm_ns.store(latest_ns, Ordering::Relaxed);\n")])]),
    "an alarm that is taken back keeps its mark": (
        "takeover", [(WATCH, [("            self.alarm_ns.store(0, Ordering::Relaxed);\n            alarm.set(None);\n",
                               "            alarm.set(None);\n")])]),
    "a leader does not look for the mark": (
        "takeover", [(WATCH, [("self.alarm_ns.load(Ordering::Relaxed) != 0)\n", "true)\n")])]),

    # LEAD
    "the lead is taken without an acquire": (
        "lead", [(LEAD, [("from, to, Ordering::Acquire,", "from, to, Ordering::Relaxed,")])]),
    "a leader takes for granted that it still leads": (
        "lead", [(LEAD, [("        self.take_from(number, number)",
                          "        self.0.store(kept_by(number), Ordering::Release);\n        true")])]),
    "who serves beside the leader does not ring for its shard": (
        "lead", [(GROUP, [("let is_hook = self.doorbell.ring_before(next);", "let is_hook = next == Tick::ZERO && false;")])]),
    "the leader does not look at the shards' times before it sleeps": (
        "lead", [(SERVER, [(LAST_LOOK, "if is_called() {")])]),
    "a leader that waits in user space does not look at the shards' times": (
        "lead", [(SERVER, [("let is_called = || is_called() || group.earliest() < next;", "let is_called = || is_called();")])]),

    # BLOCK
    **{
        f"entries are given back {order} only": ("block", [(BLOCK, [
            ("match this.free.compare_exchange(free, next, Ordering::AcqRel, Ordering::Relaxed)",
             f"match this.free.compare_exchange(free, next, Ordering::{order}, Ordering::Relaxed)")])])
        for order in ("Acquire", "Release")
    },
    "free entries are taken Relaxed": (
        "block", [(BLOCK, [("this.free.swap(0, Ordering::AcqRel)", "this.free.swap(0, Ordering::Relaxed)")])]),
    "a listed block is found whole Relaxed": (
        "block", [(BLOCK, [("this.free.load(Ordering::Acquire) == all", "this.free.load(Ordering::Relaxed) == all")])]),
    "a block is taken off its list Relaxed": (
        "block", [(BLOCK, [("this.free.fetch_and(!LISTED, Ordering::AcqRel)", "this.free.fetch_and(!LISTED, Ordering::Relaxed)")])]),
    "who gives the last entry of a listed block has it too": (
        "block", [(BLOCK, [
            ("true if now == all => Given::WholeInList,", "true if now == all => Given::Whole,")])]),
    "a block that is taken stays listed": (
        "block", [(BLOCK, [("this.free.swap(0, Ordering::AcqRel)", "this.free.swap(LISTED, Ordering::AcqRel)")])]),
    "a block is looked at after it was taken off its list": (
        "block", [(BLOCK, [("        this.free.fetch_and(!LISTED, Ordering::AcqRel) == all | LISTED",
                            "        let _ = all;\n        this.free.fetch_and(!LISTED, Ordering::AcqRel) == this.all() | LISTED")])]),
    "a whole block that is taken off its list is left": (
        "block", [(BLOCK, [("Ordering::AcqRel) == all | LISTED", "Ordering::AcqRel) == 0")])]),
    "a block that is found whole stays in the list": (
        "block", [(BLOCK, [("                unsafe { self.remove(block) };\n", "")])]),
    "the list is given up before what is free of its block is taken": (
        "block", [("crates/core/src/memory/blocks.rs", [
            ("        let used = self.try_list().and_then(|mut listed| {\n            // SAFETY: it was listed, and was just taken off the list.\n            listed.pop().map(|block| unsafe { block.take_free() })\n        });",
             "        let used = self.try_list().and_then(|mut listed| listed.pop());\n        let used = used.map(|block| unsafe { block.take_free() });")])]),
    "a whole block that another thread has in its list is forgotten": (
        "block", [("crates/core/src/memory/blocks.rs", [("            self.has_missed.store(true, Ordering::Relaxed);\n", "")])]),
    "a block that becomes whole in the list is left there": (
        "block", [("crates/core/src/memory/blocks.rs", [("                unsafe { listed.remove(block) };\n                whole.push(block);\n", "")])]),
    "the reader looks without a guard": (
        "bucket_read",
        [(RECLAIM, [("    Reader { guard: Some(pin()) }", "    Reader { guard: None }")])],
    ),
    "a reader does not look again at the link that led it there": (
        "bucket_read",
        [(SCAN, [("is_next(behind(mark.0, guard)) && is_in_list(mark)", "is_in_list(mark)")])],
    ),
    "a reader does not ask whether what led it there is in the list": (
        "bucket_read",
        [(SCAN, [("is_next(behind(mark.0, guard)) && is_in_list(mark)", "is_next(behind(mark.0, guard))")])],
    ),
    "a reader does not look again at the head": (
        "bucket_read", [(SCAN, [("None => is_next(bucket.first(list, guard)),", "None => true,")])]),
    "the reader's link is read Relaxed in a tray": (
        "tray", [(WALK, [("from.load(Ordering::Acquire)", "from.load(Ordering::Relaxed)")])]),
    "the reader's first node is read Relaxed": (
        "bucket_read", [(STACK, [("        // ORDER(BUCKET-READ): Acquire - pairs with the push that put it there.\n        let head = self.head.load(Ordering::Acquire);",
                                  "        let head = self.head.load(Ordering::Relaxed);")])]),
    "a chain is shown before it is acquired": (
        "tray", [(STACK, [with_order(LOOK_BEFORE_TAKE, "Relaxed")])]),
    "the link is written Relaxed": (
        "tray", [(STACK, [("next.store(head, Ordering::Release)", "next.store(head, Ordering::Relaxed)")])]),
    "the head is read Relaxed before a push": (
        "tray", [(STACK, [("        let mut head = self.head.load(Ordering::Acquire);\n        loop {\n            if head == closed()", "        let mut head = self.head.load(Ordering::Relaxed);\n        loop {\n            if head == closed()")])]),
    "the owner's head is written Relaxed": (
        "tray", [(LANES, [("head.store(node.as_ptr(), Ordering::Release);", "head.store(node.as_ptr(), Ordering::Relaxed);")])],
    ),
    "the fence comes before the lists are taken": (
        "freed",
        [(TRAY, [NO_FENCE,
                 ("        let mut live = 0;\n        for lane in", "        fence(Ordering::SeqCst);\n        let mut live = 0;\n        for lane in")])],
    ),
    "the fence is one of Acquire and Release": (
        "freed", [(TRAY, [("        fence(Ordering::SeqCst);\n", "        fence(Ordering::AcqRel);\n")])]),
    # STOP: the end of an engine
    "a stopper ends a role that somebody has": (
        "ending",
        [(ROLE, [("            match self.change(TAKEN, ENDING) {\n",
                  "            match self.change(TAKEN, ENDED) {\n                Ok(_) => return Some(Vec::new()),\n")])],
    ),
    "a role that nobody has is not ended": (
        "ending",
        [(ROLE, [("if let Ok(before) = self.change(FREE, ENDED) {", "if let Ok(before) = self.change(FREE, FREE) {")])],
    ),
    "the holder of a role does not end it": (
        "ending",
        [(ROLE, [("        let before = self.change(ENDING, ENDED);", "        let before = self.change(ENDING, FREE);")])],
    ),
    "a role is given back Relaxed": (
        "ending",
        [(ROLE, [("                Ordering::AcqRel,\n                Ordering::Acquire,\n",
                  "                if to == FREE { Ordering::Relaxed } else { Ordering::AcqRel },\n                Ordering::Acquire,\n")])],
    ),
    "a hand-over opens without a fence": (
        "ending", [(IN_HAND, [("self.hand_over.publish(before.wrapping_add(ONE) | open << OPEN_SHIFT);",
                               "self.hand_over.word.store(before.wrapping_add(ONE) | open << OPEN_SHIFT, Ordering::Release);")])]),
    "a stop without its heavy fence": ("ending", [(ENDING, [("        let _ = asymmetric::heavy();\n", "")])]),
    "a stopper that waits is not told what is left": (
        "ending", [(ENDING, [("        if is_left {\n            self.changed.notify_all();\n        }\n", "        let _ = is_left;\n")])]),
    "a role is taken by two": ("ending", [(ROLE, [("Err(word) if word & STATE == TAKEN => self.word.wait(word, None),", "Err(word) if word & STATE == TAKEN => break true,")])]),
    "the end's flag is read Relaxed": (
        "ending", [(ENDING, [("self.stopping.load(Ordering::Acquire)", "self.stopping.load(Ordering::Relaxed)")])]),
    "the count of stops is read Relaxed": (
        "ending", [(STOPS, [("self.0.load(Ordering::Acquire)", "self.0.load(Ordering::Relaxed)")])]),
    "the last role wakes nobody": ("ending", [(ENDING, [("is_over = true;\n            self.changed.notify_all();\n", "is_over = true;\n")])]),
    "who waits for a role is not told that it ended": (
        "ending",
        [(ROLE, [("                    self.wake_waiters(before);\n", "                    let _ = before;\n")])],
    ),
    "who waits for a role is not told that it is free": (
        "ending",
        [(ROLE, [("            self.wake_waiters(before);\n            return None;", "            let _ = before;\n            return None;")])],
    ),
    "who waits for a role sleeps without saying so": (
        "ending",
        [(ROLE, [("        self.word.word().fetch_add(WAITER, Ordering::Release);\n", ""),
                 ("        self.word.word().fetch_sub(WAITER, Ordering::Relaxed);\n", "")])],
    ),
    "who gives a role back forgets who waits": (
        "suspended",
        [(ROLE, [("        if let Ok(before) = self.change(TAKEN, FREE) {\n", "        if let Ok(before) = self.change(TAKEN, FREE) {\n            self.word.word().fetch_and(STATE, Ordering::Relaxed);\n"),
                 ("        self.word.word().fetch_sub(WAITER, Ordering::Relaxed);\n", "        let _ = self.word.word().fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| word.checked_sub(WAITER));\n")])],
    ),
    "whether it stops is asked before a role is taken": (
        "ending",
        [(ENDING, [("        let role = Role { ending: self, word, in_hand: Some(take(word)?) };\n",
                    "        let goes_on = !self.is_stopping();\n        let role = Role { ending: self, word, in_hand: Some(take(word)?) };\n"),
                   ("        (!self.is_stopping()).then_some(role)\n", "        goes_on.then_some(role)\n")])],
    ),
    "a stopper leaves what is behind a task": (
        "ending", [(ENDING, [("            self.take_rest_of_batch(shard, word);\n", "            let _ = (shard, word);\n")])]),
    "what was in hand is lost": ("ending", [(ENDING, [("        end.left.append(&mut left);\n", "        std::mem::forget(std::mem::take(&mut left));\n")])]),
    "what nobody claims is kept": ("ending", [(ENDING, [("        end.is_abandoned = true;\n", "")])]),
    "the bell rings before the stop": (
        "ending",
        [(ENDING, [("        let is_first = self.begin_stop();\n", "        shards.iter().for_each(|shard| shard.doorbell().ring());\n        let is_first = self.begin_stop();\n"),
                   ("            shards.iter().for_each(|shard| shard.doorbell().ring());\n", "")])],
    ),
    "a stopper does not count": ("ending", [(ENDING, [("let counts = end.roles > 0;", "let counts = false;")])]),
    "the handler goes with the first role": ("ending", [(ENDING, [("(!end.left.is_empty(), end.roles == 0)", "(!end.left.is_empty(), !end.is_over)")])]),
    "a reader looks into the wide trays alone": (
        "bucket_read", [("crates/core/src/shard/trays.rs", [("self.wide.iter().chain(narrow)", "self.wide.iter().chain(narrow.take(0))")])]),
    "a reader looks into the trays before it looks into the buckets": (
        "bucket_read",
        [(SCAN, [("        self.look_into_buckets(guard, steps, goes_on, scan);\n        let in_buckets = scan.found.len();\n        self.look_into_trays(guard, steps, scan);\n",
                   "        self.look_into_trays(guard, steps, scan);\n        let in_buckets = scan.found.len();\n        self.look_into_buckets(guard, steps, goes_on, scan);\n")])]),
    "a reader looks once": (
        "scan", [(SCAN, [("in (0..passes).rev() {", "in (0..passes.min(1)).rev() {")])]),
    "a reader does not look again after what was on its way": (
        "scan", [(TRAY, [("        self.moving.load(Ordering::Acquire).is_null()\n", "        true\n")])]),
    "a reader does not see how far a tray was gone through": (
        "scan", [(TRAY, [("        progress.extend(cursors.map(|cursor| cursor.load(Ordering::Acquire) as usize));\n",
                                 "        progress.extend(cursors.map(|cursor| cursor.load(Ordering::Acquire) as usize).take(0));\n")])]),
    "what is re-filed moves no more before it is there": (
        "scan", [(FLUSH, [("                    // SAFETY: it was just re-filed there.\n", "                    moved();\n                    // SAFETY: it was just re-filed there.\n")])]),
    "a chain is shown in the tray when it is taken": (
        "bucket_read",
        [(STACK, [("            if !head.is_null() {\n                show(head);\n            }\n", ""),
                  ("                Ok(_) => return !head.is_null(),",
                   "                Ok(_) => {\n                    if !head.is_null() {\n                        show(head);\n                    }\n                    return !head.is_null();\n                }")])]),
    "an own list is emptied Relaxed": (
        "tray", [(LANES, [("                show(first);\n", "                head.store(ptr::null_mut(), Ordering::Relaxed);\n                show(first);\n"),
                                              ("                head.store(ptr::null_mut(), Ordering::Release);\n", "")])]),
    "a cursor is written Relaxed": (
        "tray", [(TRAY, [("            self.cursors[chain].store(next, Ordering::Release);", "            self.cursors[chain].store(next, Ordering::Relaxed);"),
                         ("        self.cursors[chain].store(first, Ordering::Release);", "        self.cursors[chain].store(first, Ordering::Relaxed);")])]),
    "a reader that is led astray does not begin again": (
        "tray", [(TRAY, [("is_same && path.contains(", "is_same || path.contains(")])]),
    "a chain moves to the front of where readers come from": (
        "tray", [(TRAY, [("in self.cursors.iter().rev() {", "in self.cursors.iter() {")])]),
    "what moves to another tray is not shown meanwhile": (
        "bucket_read", [(FLUSH, [("        // SAFETY: the tray showed it.\n        unsafe { tray.set_moving(entry) };\n        // SAFETY: the tray showed it.\n        unsafe { tray.pass(&mut at, entry) };\n        // SAFETY: the owner holds it, and it is filed there.\n", "        // SAFETY: the tray showed it.\n        unsafe { tray.pass(&mut at, entry) };\n        // SAFETY: the owner holds it, and it is filed there.\n")])]),
    "an entry moves no more before it is there": (
        "bucket_read", [(FLUSH, [("        // SAFETY: the owner holds it, and it is filed there.\n", "        tray.set_moved();\n        // SAFETY: the owner holds it, and it is filed there.\n")])]),
    "a place is written Relaxed": (
        "tray", [(NODE, [("self.filed.store(Filed::of(place).pack(), Ordering::Release);", "self.filed.store(Filed::of(place).pack(), Ordering::Relaxed);")])]),
    "a push that was in vain acquires nothing": (
        "tray", [(STACK, [("node.as_ptr(),\n                Ordering::AcqRel,\n                Ordering::Acquire,", "node.as_ptr(),\n                Ordering::AcqRel,\n                Ordering::Relaxed,")])]),
    "a take that was in vain acquires nothing": (
        "tray", [(STACK, [("ptr::null_mut(),\n                Ordering::AcqRel,\n                Ordering::Acquire,", "ptr::null_mut(),\n                Ordering::AcqRel,\n                Ordering::Relaxed,")])]),
    "the link of a list with one writer is written Relaxed": (
        "tray", [(LANES, [("next.store(head.load(Ordering::Relaxed), Ordering::Release);", "next.store(head.load(Ordering::Relaxed), Ordering::Relaxed);")])]),
    "the first of a list with one writer gives way Relaxed": (
        "tray", [(LANES, [("        head.store(next, Ordering::Release);", "        head.store(next, Ordering::Relaxed);")])]),
    "what a tray is for is read Relaxed": (
        "tray", [(TRAY, [("let bucket = self.bucket.load(Ordering::Acquire);", "let bucket = self.bucket.load(Ordering::Relaxed);")])]),
    # PUBLISHED
    "what was published is read Relaxed": (
        "published", [(RECLAIM, [("        let shared = self.value.load(Ordering::Acquire, &guard);",
                                  "        let shared = self.value.load(Ordering::Relaxed, &guard);")])],
    ),
    "the value to be replaced is read Relaxed": (
        "published", [(RECLAIM, [("            let old = self.value.load(Ordering::Acquire, &guard);",
                                  "            let old = self.value.load(Ordering::Relaxed, &guard);")])],
    ),
    "what was published is freed at once": (
        "published", [(RECLAIM, [("                    unsafe { leave(&guard, destroy) };\n                    flush(&guard);\n",
                                  "                    destroy();\n")])],
    ),
    "what was published is read without a guard": (
        "published", [(RECLAIM, [("        let guard = pin();\n        // ORDER(PUBLISHED): Acquire - pairs with the CAS in",
                                  "        // SAFETY: a mutant.\n        let guard = unsafe { std::ptr::read(crossbeam_epoch::unprotected()) };\n"
                                  "        // ORDER(PUBLISHED): Acquire - pairs with the CAS in")])],
    ),
    "a value is replaced by load and store": (
        "published", [(RECLAIM, [("            let done =\n                self.value.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire, &guard);\n"
                                  "            if done.is_ok() {\n",
                                  "            self.value.store(new, Ordering::Release);\n            {\n")])],
    ),
    # STOP
    "close by take and mark": (
        "stop",
        [(STACK, [("        let head = self.head.swap(closed(), Ordering::AcqRel);\n",
                   "        let head = self.head.swap(ptr::null_mut(), Ordering::AcqRel);\n        self.head.store(closed(), Ordering::Release);\n")])],
    ),
    "a turn after the close": (
        "stop",
        [
            (STACK, TAKE_IF_CLOSED),
            (OPEN, [("        self.closed\n", "        false\n")]),
            (AGENDA, [("        while let Some(place) = self.first {\n", "        while let Some(place) = self.first.filter(|_| false) {\n"),
                      ("        *self = Agenda::new(self.share);\n", "")]),
        ],
    ),
    "the table of segments is closed last": ("stop", [(CLOSE, [("        self.wheel.close();\n", ""), ("        self.publish_first(Tick::NEVER);\n", "        self.wheel.close();\n        self.publish_first(Tick::NEVER);\n")])]),
    "what is made is published by load and store": (
        "stop",
        [(SYNC, [("    if place.compare_exchange(::std::ptr::null_mut(), to, order, Ordering::Acquire).is_err() {",
                  "    let is_first = place.load(Ordering::Acquire).is_null();\n    if is_first {\n        place.store(to, Ordering::Release);\n    }\n    if !is_first {")])],
    ),
    "only the first segment of a level is closed": (
        "stop", [(WHEEL, [("            for segment in self.table(at).unwrap_or_default() {", "            for segment in self.table(at).unwrap_or_default().iter().take(1) {")])],
    ),
    "a walk leaves a level's further segments out": (
        "stop", [(WHEEL, [("let (segment, buckets) = self.first_segment(table, next)?;", "let (segment, buckets) = self.first_segment(table, next).filter(|_| next == 0)?;")])],
    ),
    "a level that is not in use is not closed": (
        "stop",
        [(WHEEL, [("            let _ = level.compare_exchange(none, mark, Ordering::AcqRel, Ordering::Acquire);\n", "            let _: (_, *mut AtomicPtr<B>, *mut AtomicPtr<B>) = (level, none, mark);\n")])],
    ),
    "a vacancy keeps its list bit": (
        "stop",
        [(FLUSH, [("            let it = (entry, word);\n", "            if ends == Ends::All && word.phase() == Phase::Vacant && word.is_held() {\n                continue;\n            }\n            let it = (entry, word);\n")])],
    ),
    "the open bucket is forgotten": ("stop", [(AGENDA, [("[self.due.take(), self.eager.take()]", "[None, self.eager.take()]")])]),
    "the background work under way is forgotten": ("stop", [(AGENDA, [("[self.due.take(), self.eager.take()]", "[self.due.take(), None]")])]),
    "the rounds put aside are forgotten": ("stop", [(AGENDA, [("            all.extend(aside.map(", "            all.extend(aside.filter(|_| false).map(")])]),
    "what is parked is forgotten by a stop": (
        "parked", [(AGENDA, [("open.chain(self.parked.drain(..))", "open.chain(self.parked.drain(..).take(0))")])]),
    "a cascade that is overtaken keeps its own opening": (
        "shard", [(AGENDA, [("fires_up_to: open.place.expiration.min(limit)", "fires_up_to: open.place.expiration")])]),
    "a reader finds a table Relaxed": (
        "bucket_read", [(WHEEL, [("self.levels[usize::from(level) - 1].load(Ordering::Acquire)", "self.levels[usize::from(level) - 1].load(Ordering::Relaxed)")])]),
    "a reader finds a segment Relaxed": (
        "bucket_read", [(WHEEL, [("            first = segment.load(Ordering::Acquire);", "            first = segment.load(Ordering::Relaxed);")])]),
    "a tray that is empty again looks as before": (
        "tray", [(TRAY, [("        // So a tray that was filled and emptied differs from one that was not filled.\n        self.step();\n", "")])]),
    "a seat in a bucket that is due is taken": (
        "parked", [("crates/core/src/memory/stock.rs", [("        if self.kept[at].opens <= due {", "        if false {"), (" && last.opens > due()", "")])]),
    "a timer in a bucket that is due is moved in place": (
        "parked", [(HOLDER, [("deadline < opens || opens <= due", "deadline < opens")])]),
    "what is parked is not due": (
        "parked", [(AGENDA, [("        self.due.is_some() || !self.parked.is_empty()\n", "        self.due.is_some()\n")])]),
    "nothing is parked": (
        "parked", [(AGENDA, [("take_if(|_| is_awaited && has_had)", "take_if(|_| is_awaited && has_had && now == Tick::NEVER)")])]),
    "a parked bucket does not go on": (
        "parked", [(OPEN, [("(None, None) => return agenda.go_on(now),", "(None, None) => return false,")])]),
    "the tray of another due bucket is not shown to readers": (
        "parked",
        [(OPEN, [("unwrap_or_else(|| self.trays.add_wide());", "unwrap_or_else(|| match owner.agenda.all_due().next() {\n            None => self.trays.add_wide(),\n            Some(_) => Arc::new(Tray::wide()),\n        });")])]),
    "a bucket that goes on is seen from before": (
        "parked",
        [(AGENDA, [("Open { visited, fires_up_to: now, ..open }", "Open { visited, fires_up_to: Tick::new(now.get() + 9), ..open }")])]),
    "close without Acquire": (
        "stop",
        [(STACK, [("self.head.swap(closed(), Ordering::AcqRel)", "self.head.swap(closed(), Ordering::Release)")]),
         (TRAY, [NO_FENCE])],
    ),
    "a schedule keeps the handle when its timer may have fired": (
        "seat",
        [(PRODUCER, [("        store(entry);\n", ""), ("            self.stock.counters.add(Count::Seated, 1);\n", "            self.stock.counters.add(Count::Seated, 1);\n            store(entry);\n")])],
    ),
    "a reset keeps the handle when its timer may have fired": (
        "seat",
        [(PRODUCER, [("        store(fresh);\n", ""), ("        match filed {\n", "        store(fresh);\n        match filed {\n")])],
    ),
    "what is stranded still looks filed": (
        "stop",
        [(NODE, [("self.word.store(word.unlisted().0, Ordering::Relaxed);", "self.word.store(word.0, Ordering::Relaxed);")])],
    ),
    "what is stranded is left behind by its handle": (
        "stop",
        [(HOLDER, [("Some(before) if before.is_stranded() =>", "Some(before) if before.is_stranded() && before.deadline() > Tick::NEVER =>")])],
    ),
    # DISMANTLE
    "who files by number is no reader": ("dismantle", [(PRODUCER, [("PINS.then(read)", "(PINS && shard.index() > 9).then(read)")])]),
    "who moves a timer to an earlier time is no reader": (
        "dismantle",
        [(PRODUCER, [("        let _reader = read();\n        // The old seat", "        // The old seat")])],
    ),
    "who ends an announcement is no reader": (
        "dismantle",
        [(SHARD, [("        let _reader = read();\n", ""), ("use crate::entry::{Entry, Guard, read};", "use crate::entry::{Entry, Guard};")])],
    ),
    "a ring goes without waiting for readers": (
        "dismantle",
        [(WHEEL, [("                unsafe { after_readers(free) };", "                free();"),
                  ("use crate::entry::{Guard, after_readers};", "use crate::entry::Guard;")])],
    ),
    "no mark in place of a ring that goes": (
        "dismantle",
        [(WHEEL, [("level.swap(never(), Ordering::AcqRel)", "level.load(Ordering::Acquire)")])],
    ),
    "what is in the depots goes without waiting for readers": (
        "freed",
        [(SHARED, [("                free.push(Memory(entry));", "                unsafe { Entry::free(entry) };")])],
    ),
    # A thread that is stopped in the middle of a call
    "only the first who posts a notice rings": (
        "suspended",
        [(SHARD, [
            (ANNOUNCE, "        let is_first = self.notices.is_empty();\n" + ANNOUNCE),
            (RING, RING.replace("if self", "if is_first && self")),
        ])],
    ),
    "who files relies on the notice of the one who filed before": (
        "suspended",
        [(SHARD, [
            ("        // SAFETY: passed on to the caller.\n        unsafe { bucket.lanes.push",
             "        let is_first = (0..crate::inbox::LANES).all(|lane| bucket.lanes.lane(lane).head().is_null());\n"
             "        // SAFETY: passed on to the caller.\n        unsafe { bucket.lanes.push"),
            ("if !(bucket.is_armed_for(place.expiration) && self.clock() < place.expiration) {", "if is_first {"),
        ])],
    ),
    "who files waits until another's bucket is published": (
        "suspended",
        [(SHARD, [(
            "            return Ok(Some(bucket));\n",
            "            if !self.notices.is_empty() {\n"
            "                while !bucket.is_armed_for(place.expiration) {\n"
            "                    crate::sync::thread::yield_now();\n"
            "                }\n            }\n            return Ok(Some(bucket));\n",
        )])],
    ),
    "a seat is taken behind a lock of its shard": (
        "suspended",
        [(PRODUCER, [("        if is_seat && unsafe {", "        let _guard = shard.owner().lock().unwrap();\n        if is_seat && unsafe {")])],
    ),
    # Crowds
    "the limit is looked at before it is counted": (
        "crowd",
        [(SHARED, [(
            "        self.pending\n"
            "            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {\n"
            "                (n < self.most).then_some(n + 1)\n"
            "            })\n"
            "            .is_ok()\n",
            "        let admits = self.pending.load(Ordering::Relaxed) < self.most;\n"
            "        self.pending.fetch_add(u64::from(admits), Ordering::Relaxed);\n        admits\n",
        )])],
    ),
    # HOLD
    "a hold's CAS without Acquire": (
        "hold", [(HOLD, [("fetch_update(Ordering::AcqRel, Ordering::Acquire, next)",
                          "fetch_update(Ordering::Release, Ordering::Relaxed, next)")])],
    ),
    "who comes to what is held relies on the word that another left": (
        "hold", [(HOLD, [("            false => Some(word | AGAIN),\n",
                          "            false => (word & AGAIN == 0).then_some(word | AGAIN),\n")])],
    ),
    "who finishes is not told of what came": (
        "hold", [(HOLD, [("self.word.load(Ordering::Acquire) & AGAIN != 0", "false")])],
    ),
    "who comes has what another holds": (
        "hold", [(HOLD, [("            word if word & HELD != 0 => Came::Noted,\n", "")])],
    ),
    "who comes has what is over": (
        "hold", [(HOLD, [("            word if is_over(word) => Came::Over,\n", "")])],
    ),
    "what is over may be held again": (
        "hold", [(HOLD, [("            true => None,\n            false if word & HELD == 0 =>",
                          "            _ if word & HELD == 0 =>"),
                         ("            false => Some(word | AGAIN),\n", "            _ => Some(word | AGAIN),\n"),
                         ("            word if is_over(word) => Came::Over,\n", "")])],
    ),
    "what comes is not counted": (
        "hold", [(HOLD, [("Some((word | HELD) + (1 << COUNT_SHIFT)),", "Some(word | HELD),")])],
    ),
    "the holder lets go although something came": (
        "hold", [(HOLD, [("            None if before & AGAIN != 0 => Released::Again,\n", ""),
                         ("            false if word & AGAIN != 0 => Some(word & !AGAIN),\n",
                          "            false if word & AGAIN != 0 => Some(word & !AGAIN & !HELD),\n")])],
    ),
    "the holder does not let go": (
        "hold", [(HOLD, [("            false => Some(word & !HELD),\n", "            false => None,\n")])],
    ),
    "the holder keeps the word of what it has seen": (
        "hold", [(HOLD, [("            false if word & AGAIN != 0 => Some(word & !AGAIN),\n",
                          "            false if word & AGAIN != 0 => Some(word & !HELD),\n")])],
    ),
    "the holder leaves what is over to nobody": (
        "hold", [(HOLD, [("        match end(before) {\n            Some(how) => Released::Finish { how, by_holder: before & OWN != 0 },\n"
                          "            None if", "        match end::<E>(before) {\n            Some(_) => Released::Free,\n            None if")])],
    ),
    "the holder lets go of what is over": (
        "hold", [(HOLD, [("            true => None,\n            false if word & AGAIN", "            _ if word & AGAIN"),
                         ("            false => Some(word & !HELD),\n", "            _ => Some(word & !HELD),\n"),
                         ("        match end(before) {\n            Some(how) => Released::Finish { how, by_holder: before & OWN != 0 },\n"
                          "            None if before & AGAIN != 0 => Released::Again,\n            None => Released::Free,\n",
                          "        match before & AGAIN != 0 {\n            true => Released::Again,\n            false => Released::Free,\n")])],
    ),
    "the holder's end overrides what was decided": (
        "hold", [(HOLD, [("            Some(how) => Released::Finish { how, by_holder: before & OWN != 0 },\n"
                          "            None => Released::Finish { how, by_holder: true },\n",
                          "            Some(_) | None => Released::Finish { how, by_holder: true },\n"),
                         ("        let before = self.update(|word| decided(word, how, OWN));\n        match end(before) {",
                          "        let before = self.update(|word| decided(word, how, OWN));\n        match end::<E>(before) {")])],
    ),
    "a try that decides is told that somebody else did": (
        "hold", [(HOLD, [("        let before = self.update(|word| decided(word, how, OWN));\n        match end(before) {\n"
                          "            Some(how) => Released::Finish { how, by_holder: before & OWN != 0 },",
                          "        let before = self.update(|word| decided(word, how, OWN));\n        match end(before) {\n"
                          "            Some(how) => Released::Finish { how, by_holder: false },"),
                         ("            Some(how) => Released::Finish { how, by_holder: before & OWN != 0 },\n            None if",
                          "            Some(how) => Released::Finish { how, by_holder: false },\n            None if")])],
    ),
    "a thread that decides what is held is taken for its holder": (
        "hold", [(HOLD, [("if word & HELD != 0 && is_own() { OWN }", "if word & HELD != 0 || is_own() { OWN }")])],
    ),
    "a thread that decides finishes what is held": (
        "hold", [(HOLD, [("            word if word & HELD != 0 => Decided::Noted,\n", "")])],
    ),
    "a thread that decides leaves a free one to nobody": (
        "hold", [(HOLD, [("            _ => Decided::Finish,", "            _ => Decided::Noted,")])],
    ),
    "two ends are decided": (
        "hold", [(HOLD, [("            word if is_over(word) => Decided::Late,\n", "")])],
    ),
    "who asks how it ended sees no more than that": (
        "hold", [(HOLD, [("        end(self.word.load(Ordering::Acquire))\n", "        end(self.word.load(Ordering::Relaxed))\n")])],
    ),
    "who asks for the count sees no more than that": (
        "hold", [(HOLD, [("        self.word.load(Ordering::Acquire) >> COUNT_SHIFT\n",
                          "        self.word.load(Ordering::Relaxed) >> COUNT_SHIFT\n")])],
    ),
    # The queue of a pool
    "a push wakes one worker however many it has work for": (
        "queue", [(QUEUE, [("let sleepers = state.idle.min(pushed);", "let sleepers = state.idle.min(pushed).min(1);")])],
    ),
    "a producer goes to wait before it wakes workers": (
        "queue", [(QUEUE, [("            self.wake(sleepers);\n            state.waiting += 1;",
                             "            state.waiting += 1;")])],
    ),
    "workers that make room wake nobody until half of it is free": (
        "queue", [(QUEUE, [("                let calls = state.calls();\n",
                             "                let calls = state.items.len() == self.bound / 2 && state.calls();\n")])],
    ),
    "a producer that leaves room wakes nobody": (
        "queue", [(QUEUE, [("                let calls = state.items.len() < self.bound && state.calls();\n",
                             "                let calls = state.items.len() < self.bound && state.calls() && false;\n")])],
    ),
    "who was called stays called": (
        "queue", [(QUEUE, [("            state.is_called = false;\n", "")])],
    ),
    "a producer waits though nobody is there": (
        "queue", [(QUEUE, [(" && state.present > 0", "")])],
    ),
    "a worker steps aside and tells nobody": (
        "queue", [(QUEUE, [("        if is_last {\n            self.room", "        if is_last && false {\n            self.room")])],
    ),
    "the first worker to step aside speaks for all": (
        "queue", [(QUEUE, [("        state.present -= 1;\n        state.yielded", "        state.present = 0;\n        state.yielded"),
                            ("                state.present -= 1;\n                self.leave", "                self.leave")])],
    ),
    "a worker that comes back is not counted": (
        "queue", [(QUEUE, [("        state.present += 1;\n", "")])],
    ),
    "a close wakes no worker": (
        "queue", [(QUEUE, [("        self.work.notify_all();\n", "")])],
    ),
    "a close wakes no producer": (
        "queue", [(QUEUE, [("        self.work.notify_all();\n        self.room.notify_all();\n", "        self.work.notify_all();\n")])],
    ),
    "a worker leaves what is in a queue that is over": (
        "queue", [(QUEUE, [("            if let Some(item) = state.items.pop_front() {",
                             "            if let Some(item) = state.items.pop_front().filter(|_| !state.is_over) {")])],
    ),
    "a payload is pushed after the end": (
        "queue", [(QUEUE, [("            if state.is_over {\n                return Pushed::Over;",
                             "            if state.is_over && has_waited {\n                return Pushed::Over;")])],
    ),
    "who waits for workers is not told that the last one has ended": (
        "queue", [(QUEUE, [("                state.present -= 1;\n                self.leave(state);\n", "                state.present -= 1;\n")])],
    ),
    "who waits for workers does not mind that one has yielded": (
        "queue", [(QUEUE, [("        state.yielded == 0\n", "        true\n")])],
    ),
    "a worker that is back has still yielded": (
        "queue", [(QUEUE, [("        state.yielded -= 1;\n", "")])],
    ),
    # WAKER
    "an exchange does not mind that the entry was unlinked": (
        "waker", [(HOLDER, [("            false => Exchange::Unlinked(old, deadline),\n",
                             "            false => Exchange::Done(old),\n")])],
    ),
    "an exchange puts the new payload before the entry is vacated": (
        "waker", [(HOLDER, [("        let Some((old, _)) = (unsafe { self.cancel() }) else {\n            return Exchange::Gone(payload);\n        };\n"
                             "        // SAFETY: the caller is now the producer of the vacancy.\n"
                             "        unsafe { self.put_payload(payload) };\n",
                             "        // SAFETY: none.\n        let old = unsafe { self.take_payload() };\n"
                             "        // SAFETY: none.\n        unsafe { self.put_payload(payload) };\n"
                             "        // SAFETY: none.\n        if unsafe { self.vacate() }.is_none() {\n            return Exchange::Gone(old);\n        }\n")])],
    ),
    "an exchange takes the seat whatever became of the entry": (
        "waker", [(HOLDER, [("        match unsafe { Entry::take_seat(NonNull::from(self), deadline, true) } {\n",
                             "        match unsafe { Entry::take_seat(NonNull::from(self), deadline, true) || self.word.swap(self.word().pending(deadline, true).0, Ordering::AcqRel) > 0 } {\n")])],
    ),
    "an exchange lets go of the handle": (
        "waker", [(HOLDER, [("NonNull::from(self), deadline, true)", "NonNull::from(self), deadline, false)")])],
    ),
    "an entry that is filed again is not the handle's": (
        "waker", [(EXCHANGED, [("self.push(shared, shard, deadline, now, entry, true)", "self.push(shared, shard, deadline, now, entry, false)")])],
    ),
    "an entry that could not be filed again is not stranded": (
        "waker", [(EXCHANGED, [("                // SAFETY: it was refused, so it is still ours alone, pending and held.\n"
                               "                unsafe { self.strand(shared, entry, counts) };\n", "")])],
    ),
    # TWIN
    "an owner that is alone does not see the others go": (
        "twin", [(TWIN, [("owners.load(Ordering::Acquire) == 1", "owners.load(Ordering::Relaxed) == 1")])],
    ),
    "the last owner goes without Acquire": (
        "twin", [(TWIN, [("owners.fetch_sub(1, Ordering::AcqRel)", "owners.fetch_sub(1, Ordering::Release)")])],
    ),
    "two owners both find that they are not alone": (
        "twin", [(TWIN, [("        if is_alone || owners.fetch_sub(1, Ordering::AcqRel) == 1 {\n",
                           "        if !is_alone {\n            owners.fetch_sub(1, Ordering::AcqRel);\n        }\n        if is_alone {\n")])],
    ),
    "two that go at once do not see the others go": (
        "twin", [(TWIN, [("owners.load(Ordering::Acquire) == 2", "owners.load(Ordering::Relaxed) == 2")])],
    ),
    "two that go at once drop a value that a third owns": (
        "twin", [(TWIN, [("owners.load(Ordering::Acquire) == 2", "owners.load(Ordering::Acquire) >= 2")])],
    ),
    "an owner is made without being counted": (
        "twin", [(TWIN, [("self.body().owners.fetch_add(1, Ordering::Relaxed)", "self.body().owners.fetch_add(0, Ordering::Relaxed)")])],
    ),
    # CLOSABLE
    "the last use of what is closed does not see the others end": (
        "closable", [(CLOSABLE, [("fetch_sub(USE, Ordering::AcqRel)", "fetch_sub(USE, Ordering::Release)")])],
    ),
    "who closes a value does not see its uses end": (
        "closable", [(CLOSABLE, [("fetch_or(CLOSED, Ordering::Acquire)", "fetch_or(CLOSED, Ordering::Relaxed)")])],
    ),
    "a use begins after the close": (
        "closable", [(CLOSABLE, [("(word & CLOSED == 0).then_some(word + USE)", "Some(word + USE)")])],
    ),
    "the last use does not drop what was closed meanwhile": (
        "closable", [(CLOSABLE, [("== USE | CLOSED {", "== CLOSED {")])],
    ),
    # LATCH
    "a latch is found open without Acquire": (
        "latch", [(LATCH, [("is_open(self.head.load(Ordering::Acquire))", "is_open(self.head.load(Ordering::Relaxed))")])],
    ),
    "a waiter stays where the opener was": (
        "latch", [(LATCH, [("                drop(place.waiter.with_mut(|cell| unsafe { (*cell).take() }));\n                return None;",
                            "                return None;")])],
    ),
    "a latch opens without Acquire": (
        "latch", [(LATCH, [("fetch_update(Ordering::AcqRel, Ordering::Relaxed, mark)",
                            "fetch_update(Ordering::Release, Ordering::Relaxed, mark)")])],
    ),
    "a watcher comes to the places without Acquire": (
        "latch", [(LATCH, [("        let head = self.head.load(Ordering::Acquire);\n        if is_open(head) {",
                            "        let head = self.head.load(Ordering::Relaxed);\n        if is_open(head) {")])],
    ),
    "a free place is taken without Acquire": (
        "latch", [(LATCH, [("place.replace(FREE, TAKEN, Ordering::Acquire)", "place.replace(FREE, TAKEN, Ordering::Relaxed)")])],
    ),
    "a watcher does not notice that the opener was at its place": (
        "latch", [(LATCH, [("if place.replace(TAKEN, WATCHED, Ordering::Release) {",
                            "if place.replace(TAKEN, WATCHED, Ordering::Release) || true {")])],
    ),
    "a place that cannot be linked is told without Acquire": (
        "latch", [(LATCH, [("compare_exchange(head, linked, Ordering::Release, Ordering::Acquire)",
                            "compare_exchange(head, linked, Ordering::Release, Ordering::Relaxed)")])],
    ),
    "a place is linked to a latch that has opened meanwhile": (
        "latch", [(LATCH, [("        loop {\n            if is_open(head) {\n                return None;\n            }\n",
                            "        loop {\n            head = unmarked(head);\n")])],
    ),
    "a place that the opener was at is freed": (
        "latch", [(LATCH, [("place.replace(TAKEN, FREE, Ordering::Release)", "place.state.store(FREE, Ordering::Release)")])],
    ),
    "a waiter is taken by load and store": (
        "latch", [(LATCH, [("        if !place.replace(WATCHED, TAKEN, Ordering::Acquire) {\n            return None;\n        }\n",
                            "        if place.state.load(Ordering::Acquire) != WATCHED {\n            return None;\n        }\n"
                            "        place.state.store(TAKEN, Ordering::Release);\n")])],
    ),
    "a waiter is taken back without Acquire": (
        "latch", [(LATCH, [("place.replace(WATCHED, TAKEN, Ordering::Acquire)", "place.replace(WATCHED, TAKEN, Ordering::Relaxed)")])],
    ),
    "the opener takes waiters without Acquire": (
        "latch", [(LATCH, [("place.state.swap(OVER, Ordering::AcqRel)", "place.state.swap(OVER, Ordering::Release)")])],
    ),
    "a place that is over is found without Acquire": (
        "latch", [(LATCH, [("self.state.compare_exchange(from, to, order, Ordering::Acquire)",
                            "self.state.compare_exchange(from, to, order, Ordering::Relaxed)")])],
    ),
    "waiters are woken before the latch is open": (
        "latch", [(LATCH, [("        let opened = self.head", "        wake_all(unmarked(self.head.load(Ordering::Acquire)), &mut wake);\n        let opened = self.head"),
                           ("        if !head.is_null() {\n            wake_all(head, wake);\n        }\n", ""),
                           ("wake: impl FnMut(W)) {\n        let mark", "mut wake: impl FnMut(W)) {\n        let mark")])],
    ),
    # REVOKE
    "a value is taken by load and store": (
        "revoke", [(REVOCABLE, [("            self.phase.compare_exchange(WAITS, to as u32, Ordering::Relaxed, Ordering::Relaxed);\n        if decided.is_err() {\n",
                                 "            self.phase.load(Ordering::Relaxed).eq(&WAITS).then(|| self.phase.store(to as u32, Ordering::Relaxed));\n        if decided.is_none() {\n")])],
    ),
    "a use that is begun is revoked": (
        "revoke", [(REVOCABLE, [("        self.take_for(Phase::Revoked)\n",
                                 "        let before = self.phase.swap(Phase::Revoked as u32, Ordering::Relaxed);\n"
                                 "        (before <= 1).then(|| self.value.with_mut(|value| unsafe { ManuallyDrop::take(&mut *value) }))\n")])],
    ),
    "an end is told before it is open": (
        "revoke", [(REVOCABLE, [("            Phase::Ran if !is_open => Phase::Runs,\n            Phase::Dropped if !is_open => Phase::Drops,\n",
                                 "            _ if !is_open && is_open => Phase::Runs,\n")])],
    ),
    "the latch opens before the phase is written": (
        "revoke", [(REVOCABLE, [("        // ORDER(REVOKE): Relaxed - as above.\n        self.phase.store(ended as u32, Ordering::Relaxed);\n        self.latch.open(wake);\n",
                                 "        self.latch.open(wake);\n        self.phase.store(ended as u32, Ordering::Relaxed);\n")])],
    ),
    # HEARTBEAT
    "a late beat without Acquire": (
        "heartbeat", [(PULSE, [("self.last_ns.fetch_update(Ordering::Release, Ordering::Acquire, next)",
                                "self.last_ns.fetch_update(Ordering::Release, Ordering::Relaxed, next)")])],
    ),
    "a beat is a load and a store": (
        "heartbeat", [(PULSE, [("        let last = self.last_ns.fetch_update(Ordering::Release, Ordering::Acquire, next);\n",
                                "        let last = self.last_ns.load(Ordering::Acquire);\n"
                                "        let next = next(last);\n"
                                "        next.inspect(|&next| self.last_ns.store(next, Ordering::Release));\n"
                                "        let last = next.map(|_| last).ok_or(last);\n")])],
    ),
    "a beat of an earlier time leaves no trace": (
        "heartbeat", [(PULSE, [("        let last = self.last_ns.fetch_update(Ordering::Release, Ordering::Acquire, next);\n",
                                "        let last = self.last_ns.load(Ordering::Acquire);\n"
                                "        if last < LATE && last > now_ns {\n            return true;\n        }\n"
                                "        let last = self.last_ns.fetch_update(Ordering::Release, Ordering::Acquire, next);\n")])],
    ),
    "a beat sets the time back": (
        "heartbeat", [(PULSE, [("{ LATE } else { last.max(now_ns) }", "{ LATE } else { now_ns }")])],
    ),
    "a beat undoes the end": (
        "heartbeat", [(PULSE, [("let next = |last: u64| (last < LATE).then(|| later(last));",
                                "let next = |last: u64| Some(if last < LATE { later(last) } else { now_ns });")])],
    ),
    "what a late beat has left is not revoked": (
        "heartbeat", [(PULSE, [("self.end(STOPPED, |last| last <= LATE).is_ok()", "self.end(STOPPED, |last| last <= LATE).is_err()")])],
    ),
    "a late beat does not end the beats": (
        "heartbeat", [(PULSE, [("if is_late(last) { LATE } else { last.max(now_ns) }", "if is_late(last) { last } else { last.max(now_ns) }")])],
    ),
    "a stop undoes the end by a late beat": (
        "heartbeat", [(PULSE, [("self.end(STOPPED, |last| last < LATE).is_ok()", "self.end(STOPPED, |last| last < STOPPED).is_ok()")])],
    ),
    "a timer takes no note of a late beat": (
        "heartbeat", [(PULSE, [("last == LATE || last < LATE && until(last) <= now_ns", "last < LATE && until(last) <= now_ns")])],
    ),
    "the end of the beats without Acquire": (
        "heartbeat", [(PULSE, [("self.last_ns.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| {",
                                "self.last_ns.fetch_update(Ordering::Release, Ordering::Acquire, |last| {")])],
    ),
    "a timer is told of a beat without Acquire": (
        "heartbeat", [(PULSE, [("self.last_ns.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| {",
                                "self.last_ns.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |last| {")])],
    ),
    "who asks whether beats are listened to sees no more than that": (
        "heartbeat", [(PULSE, [("        self.last_ns.load(Ordering::Acquire)\n", "        self.last_ns.load(Ordering::Relaxed)\n")])],
    ),
    "the beats end whatever came meanwhile": (
        "heartbeat", [(PULSE, [("        match self.end(end, is_silent) {",
                                "        let last = self.last_ns.load(Ordering::Acquire);\n"
                                "        match self.end(end, |_| is_silent(last)) {")])],
    ),
    "a timer ends the beats although there was a later one": (
        "heartbeat", [(PULSE, [("last < LATE && until(last) <= now_ns", "last < LATE && (last > 0 || until(last) <= now_ns)")])],
    ),
    "a timer ends what was stopped": (
        "heartbeat", [(PULSE, [("last == LATE || last < LATE && until(last) <= now_ns", "last == LATE || last == STOPPED || last < LATE && until(last) <= now_ns")])],
    ),
    "a look takes note of the silence": (
        "heartbeat", [(PULSE, [("self.end_if_silent(LATE, now_ns, timeout_ns)", "self.end_if_silent(SILENT, now_ns, timeout_ns)")])],
    ),
    # KEYED
    "a gate is opened although the timer was early": (
        "keyed", [(GATE, [("        let may = self.word.load(Ordering::Relaxed) == MAKING;\n",
                            "        let may = self.word.load(Ordering::Relaxed) != OVER;\n")])],
    ),
    "who arrives at an open gate is early": (
        "keyed", [(GATE, [("        if was == MAKING {\n", "        if was != OVER {\n"), ("        was == OPEN\n", "        false\n")])],
    ),
    "a gate that was early stays shut for good": (
        "keyed", [(GATE, [("        self.word.store(MAKING, Ordering::Relaxed);\n", "        self.word.store(OVER, Ordering::Relaxed);\n")])],
    ),
    "a ticket that came before it counted is not noted": (
        "keyed", [(GATE, [("            self.early = self.early.max(generation);\n", "")])],
    ),
    "a ticket counts although a later one does": (
        "keyed", [(GATE, [("        if generation < self.current {\n            Armed::Superseded\n        } else if", "        if")])],
    ),
    "any ticket is due": (
        "keyed", [(GATE, [("        generation == self.current\n", "        generation >= self.current\n")])],
    ),
    # COUNTERS
    "a set of counters is claimed without Acquire": (
        "counters", [(COUNTERS, [("let (from, to) = (Ordering::Acquire, Ordering::Relaxed);", "let (from, to) = (Ordering::Relaxed, Ordering::Relaxed);")])],
    ),
    "a free set of counters is claimed by load and store": (
        "counters", [(COUNTERS, [(
            "            && self.is_claimed.compare_exchange(false, true, from, to).is_ok()\n",
            "            && { let _ = (from, to); self.is_claimed.store(true, Ordering::Relaxed); true }\n")])],
    ),
    "the sets of counters are found without Acquire": (
        "counters", [(GROWING_LIST, [("self.first.load(Ordering::Acquire)", "self.first.load(Ordering::Relaxed)")])],
    ),
    "a set of counters is added by load and store": (
        "counters", [(GROWING_LIST, [(
            "        let _ = self.first.fetch_update(Ordering::Release, Ordering::Relaxed, push);\n",
            "        let first = push(self.first.load(Ordering::Relaxed)).expect(\"it always adds\");\n        self.first.store(first, Ordering::Release);\n")])],
    ),
    # SWEEP
    "the bell is rung before a sweep is asked for": (
        "sweep", [(SHARD, [("        if !self.is_sweep_asked.swap(true, Ordering::Release) {\n            self.doorbell.ask(self.group_index);\n            self.doorbell.ring();\n        }",
                            "        if !self.wants_sweep() {\n            self.doorbell.ask(self.group_index);\n            self.doorbell.ring();\n            self.is_sweep_asked.swap(true, Ordering::Release);\n        }")])],
    ),
    "a request for a sweep is taken without Acquire": (
        "sweep", [(SHARD, [("self.is_sweep_asked.swap(false, Ordering::Acquire)", "self.is_sweep_asked.swap(false, Ordering::Relaxed)")])],
    ),
    # The whole shard
    "a link is read after a flush has settled the entry": (
        "shard",
        [(FLUSH, [("            // SAFETY: the tray showed it.\n            unsafe { tray.pass(&mut at, entry) };\n            let it",
                   "            let it"),
                  ("Some(tray)),\n                }\n            }\n",
                   "Some(tray)),\n                }\n            }\n            // SAFETY: a mutant.\n            unsafe { tray.pass(&mut at, entry) };\n")])],
    ),
    "eager cascading takes the place off the agenda": (
        "shard", [(AGENDA, [("        if aside.is_none() && !is_due {\n            *is_cascaded = true;\n        } else if", "        let _ = (is_due, is_cascaded);\n        if")])],
    ),
    "a sweep unlinks the living": (
        "seat", [(SWEEP, [("let is_dead = word.phase() == Phase::Vacant && !word.is_held();", "let is_dead = word.phase() == Phase::Vacant;")])],
    ),
    "a sweep goes on in a bucket that was opened": (
        "shard", [(OPEN, [("        owner.sweep.leave(Swept::Bucket(place.level, place.slot));\n", "        let _ = Swept::Bucket(place.level, place.slot);\n")])],
    ),
    "a sweep goes on in a round that was opened": (
        "shard", [(OPEN, [("            owner.sweep.leave(Swept::Round(place));\n", "            let _ = Swept::Round(place);\n")])],
    ),
    "what is cut out of a round is not told of": (
        "bucket_read", [(SWEEP, [("                self.trays.note_cut();\n", "")])],
    ),
    "what is cascaded eagerly is not flushed with its bucket": (
        "shard", [(AGENDA, [("self.eager.take_if(is_awaited)?", "self.eager.take_if(is_awaited).filter(|_| false)?")])],
    ),
    "the head of a list is unlinked by load and store": (
        "bucket_read",
        [(STACK, [("        self.head.compare_exchange(node, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()",
                   "        let is_first = self.head.load(Ordering::Acquire) == node;\n"
                   "        if is_first {\n            self.head.store(next, Ordering::Release);\n        }\n        is_first")])],
    ),
}


def changed(path, edits):
    """The file's text with the edits made, and which of them no longer fits."""
    text = path.read_text()
    for old, new in edits:
        if text.count(old) != 1 or old == new:
            return text, f"STALE: {path} has {text.count(old)} times, to become {new!r}: {old!r}"
        text = text.replace(old, new)
    return text, None


def fit():
    """Whether what every mutant changes is still there."""
    stale = [
        f"{name}: {why}" for name, (_, changes) in MUTANTS.items() for file, edits in changes
        if (why := changed(ROOT / file, edits)[1])
    ]
    print("\n".join(stale) or f"{len(MUTANTS)} mutants fit")
    sys.exit(bool(stale))


def run(name, command):
    """Has cargo do this with the mutated copy. `None`, and why, if the mutant no longer fits."""
    models, changes = MUTANTS[name]
    for file, edits in changes:
        text, stale = changed(COPY / file, edits)
        if stale:
            return None, stale
        (COPY / file).write_text(text)
    world = "shuttle" if models in SCHEDULED else "loom"
    env = dict(
        os.environ,
        RUSTFLAGS=WORLDS[world],
        CARGO_TARGET_DIR=str(ROOT / "target" / f"mutants-{world}"),
        CARGO_INCREMENTAL="1",
    )
    env.setdefault("CARGO_PROFILE_RELEASE_DEBUG", "false")
    # Quick to build: each is run once.
    quick = "profile.release.package.tickless-core.codegen-units=16"
    command = ["cargo", *command, "--config", quick, "--release", "-p", "loom-tests", "--test", models]
    done = subprocess.run(
        command, cwd=COPY, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        start_new_session=True,
    )
    for file, _ in changes:
        shutil.copy2(ROOT / file, COPY / file)
        os.utime(COPY / file)
    if "could not compile" in done.stderr:
        return None, "BROKEN: " + done.stderr[done.stderr.index("error"):][:1500]
    return done, None


def compiles(name):
    """What cargo says of the mutant, and whether it compiles."""
    done, why = run(name, ["check", "--quiet"])
    if done and done.returncode:
        return "BROKEN: " + done.stderr[-1500:], False
    return why or "compiles", not why


def is_caught(name):
    """What the models say of the mutant, and whether one of them catches it."""
    end = "--no-fail-fast" if "--every" in sys.argv else "--max-fail=1:immediate"
    done, why = run(name, ["nextest", "run", "--profile", "models", end])
    if not done:
        return why, False
    failed = sorted(set(re.findall(r"(?:FAIL|SIG(?!TERM|KILL)\w+|ABORT|TIMEOUT) \[[^]]*\] (?:\([^)]*\) )?loom-tests::\w+ ([\w:]+)", done.stderr)))
    how = re.search(r"panicked at [^\n]*\n\s*([^\n]*)", done.stderr)
    if not failed:
        how = "MISSED" if done.returncode == 0 else "BROKEN: " + done.stderr[-1500:]
        return how, False
    return f"caught by {', '.join(failed)}: {how.group(1) if how else 'killed by a signal'}", True


def main():
    known = ("--list", "--fit", "--check", "--every", "--one-of")
    if any(arg.startswith("-") and arg not in known for arg in sys.argv[1:]):
        return print(__doc__)
    if "--list" in sys.argv:
        return print("\n".join(MUTANTS))
    if "--fit" in sys.argv:
        return fit()
    examine = compiles if "--check" in sys.argv else is_caught
    parts = 1
    if "--one-of" in sys.argv:
        at = sys.argv.index("--one-of")
        parts = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    wanted = [arg.lower() for arg in sys.argv[1:] if not arg.startswith("--")]
    chosen = [
        name for name in MUTANTS
        if not wanted or any(want in name.lower() or want == MUTANTS[name][0] for want in wanted)
    ]
    chosen = chosen[random.randrange(parts)::parts]
    # What was there in an earlier run may have moved, and may be a mutant: newer than what is built of it.
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(ROOT, COPY, ignore=LEFT_OUT, copy_function=shutil.copy)
    failures = 0
    for name in chosen:
        outcome, is_well = examine(name)
        failures += not is_well
        print(f"{MUTANTS[name][0]}: {name}: {outcome}", flush=True)
    print(f"{len(chosen)} mutants, {failures} are not {'compiled' if examine is compiles else 'caught'}")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
