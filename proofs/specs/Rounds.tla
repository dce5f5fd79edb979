------------------------------- MODULE Rounds -------------------------------
(* A reaper that is behind its producers, on a ring of two slots and a reach  *)
(* of two: a bucket holds many rounds, of which only the first is due to be   *)
(* opened. Each timer is filed for the next tick, fires, and is filed anew    *)
(* after a pause (short ticks). Work takes time: a tick for each entry that   *)
(* the reaper looks at.                                                       *)
(*                                                                            *)
(* `Others` says what a flush does with an entry of a later round:            *)
(*   "aside"  it waits by itself until its round opens                        *)
(*            (crates/core/src/shard/agenda.rs)                               *)
(*   "back"   it is pushed back, and looked at again by each opening before   *)
(*   "copies" the same, and the armed heap takes a copy of its round, unless  *)
(*            the bucket remembers just that round: the arming before its fix *)
(* Times are relative to the present, so the spec has no end of time.         *)
EXTENDS Integers, FiniteSets

CONSTANTS Timers, \* a set of numbers, e.g. 1 .. 3
          Pause,  \* ticks from a timer's firing to its next filing
          Late,   \* no timer is more ticks late: beyond that, work takes no time
          Most,   \* no more copies of a round on the armed heap
          Others  \* "aside", "back" or "copies"

Slots == 2
Times == -Late .. 1
None == 2

VARIABLES
    where,   \* of each timer: "bucket", "tray", "aside", or "out" (fired, and not filed again)
    at,      \* its round, relative to the present; outside of the wheel, ticks until it is filed
    heap,    \* how many items the armed heap has of each round
    queued,  \* the round that each bucket remembers
    open     \* the round that is being flushed, or None

vars == <<where, at, heap, queued, open>>

VARIABLE phase \* the slot of the present: it alternates
all == <<vars, phase>>

SlotOf(x) == (x + Late + Late + phase) % Slots
In(place) == {t \in Timers : where[t] = place}
Armed == {x \in Times : heap[x] > 0}
Aside == {at[t] : t \in In("aside")}
Min(S) == CHOOSE x \in S : \A y \in S : x <= y
First == Min(Armed \cup Aside)
IsDue == Armed \cup Aside /= {} /\ First <= 0

\* Nobody would be too late a tick later.
MayPass(w, a, h, q, o) ==
    /\ \A t \in Timers : w[t] /= "out" => a[t] > -Late
    /\ h[-Late] = 0 /\ o /= -Late
    /\ \A s \in 0 .. Slots - 1 : q[s] /= -Late

Later(x) == IF x = None THEN None ELSE x - 1

\* Goes on to this state a tick later, if it may.
Pass(w, a, h, q, o) ==
    IF MayPass(w, a, h, q, o)
    THEN /\ where' = w
         /\ at' = [t \in Timers |-> IF w[t] = "out" /\ a[t] = 0 THEN 0 ELSE a[t] - 1]
         /\ heap' = [x \in Times |-> IF x = 1 THEN 0 ELSE h[x + 1]]
         /\ queued' = [s \in 0 .. Slots - 1 |-> Later(q[s])]
         /\ open' = Later(o)
         /\ phase' = (phase + 1) % Slots
    ELSE /\ where' = w /\ at' = a /\ heap' = h /\ queued' = q /\ open' = o
         /\ UNCHANGED phase

\* The reaper begins late, in any way: it was held up in a task, or the machine was.
Init == /\ where = [t \in Timers |-> "bucket"]
        /\ at \in [Timers -> 2 - Late .. 0]
        /\ \A t, u \in Timers : t < u => at[t] <= at[u]
        /\ heap = [x \in Times |-> IF \E t \in In("bucket") : at[t] = x THEN 1 ELSE 0]
        /\ phase = 0
        /\ queued \in [0 .. Slots - 1 -> Times \cup {None}]
        /\ \A s \in 0 .. Slots - 1 :
             LET here == {at[t] : t \in {u \in In("bucket") : SlotOf(at[u]) = s}} IN
             IF here = {} THEN queued[s] = None ELSE queued[s] \in here
        /\ open = None

More(h, x) == [h EXCEPT ![x] = IF h[x] < Most THEN h[x] + 1 ELSE h[x]]

\* The armed heap takes a round of a bucket. A duplicate is left out; "copies" finds only the
\* duplicate of the round that the bucket remembers.
Noted(h, q, x) ==
    IF Others = "copies"
    THEN IF q[SlotOf(x)] = x THEN h ELSE More(h, x)
    ELSE IF h[x] > 0 THEN h ELSE More(h, x)
Remembered(q, x) == [q EXCEPT ![SlotOf(x)] = x]

\* A producer files a timer for the next tick; its notice is read at once.
File(t) == /\ where[t] = "out" /\ at[t] = 0
           /\ where' = [where EXCEPT ![t] = "bucket"]
           /\ at' = [at EXCEPT ![t] = 1]
           /\ heap' = Noted(heap, queued, 1)
           /\ queued' = Remembered(queued, 1)
           /\ UNCHANGED <<open, phase>>

\* The first due round opens: its bucket's entries are in hand, whatever their round, and those
\* that were put aside for it.
Open == /\ open = None /\ IsDue
        /\ LET x == First
               OfBucket(t) == where[t] = "bucket" /\ heap[x] > 0 /\ SlotOf(at[t]) = SlotOf(x)
               OfRound(t) == where[t] = "aside" /\ at[t] = x
           IN Pass([t \in Timers |-> IF OfBucket(t) \/ OfRound(t) THEN "tray" ELSE where[t]],
                   at,
                   IF heap[x] > 0 THEN [heap EXCEPT ![x] = heap[x] - 1] ELSE heap,
                   IF queued[SlotOf(x)] = x THEN [queued EXCEPT ![SlotOf(x)] = None] ELSE queued,
                   x)

\* The reaper looks at one entry in hand, in any order; that takes a tick.
Visit(t) ==
    /\ open /= None /\ where[t] = "tray"
    /\ IF at[t] <= open
       THEN Pass([where EXCEPT ![t] = "out"], [at EXCEPT ![t] = Pause], heap, queued, open)
       ELSE IF Others = "aside"
       THEN Pass([where EXCEPT ![t] = "aside"], at, heap, queued, open)
       ELSE Pass([where EXCEPT ![t] = "bucket"], at, Noted(heap, queued, at[t]),
                 Remembered(queued, at[t]), open)

\* The tray is empty.
Close == /\ open /= None /\ In("tray") = {}
         /\ open' = None
         /\ UNCHANGED <<where, at, heap, queued, phase>>

\* Nothing is due: the reaper sleeps for a tick.
Idle == open = None /\ ~IsDue
Sleep == /\ Idle
         /\ \E t \in Timers : where[t] /= "out" \/ at[t] > 0
         /\ \A t \in Timers : where[t] = "out" => at[t] > 0
         /\ Pass(where, at, heap, queued, open)

Next == \/ Open \/ Close \/ Sleep
        \/ \E t \in Timers : File(t) \/ Visit(t)

Spec == /\ Init /\ [][Next]_vars
        /\ WF_vars(Open \/ Close \/ Sleep \/ \E t \in Timers : Visit(t))
        /\ \A t \in Timers : WF_vars(File(t))

\* A round that holds a timer is armed, or put aside.
Covered == \A t \in Timers : where[t] = "bucket" => heap[at[t]] > 0 \/ open = at[t]

\* No work is multiplied: the armed heap has each round once.
Once == \A x \in Times : heap[x] <= 1

\* Every timer fires, each time that it is filed.
EveryTimerFires == \A t \in Timers : (where[t] /= "out") ~> (where[t] = "out")

\* The reaper catches up, whatever happens: nothing is due, again and again.
CatchesUp == []<>Idle
=============================================================================
