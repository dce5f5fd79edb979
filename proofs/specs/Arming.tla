------------------------------- MODULE Arming -------------------------------
(* Filing, arming and the doorbell: producers push entries on one bucket, and *)
(* the reaper opens it and sleeps. The bucket holds every round of its slot   *)
(* at once, which is the hardest case: its rounds open at 1 .. Last.          *)
(*                                                                            *)
(* A store that a later load of the same thread may overtake waits in a store *)
(* buffer, one place for each location, in no order but that of a Release. A  *)
(* fence waits until the buffers of its thread are empty.                     *)
EXTENDS Naturals, FiniteSets

CONSTANTS Producers, \* a set, e.g. {"p1", "p2"}
          Posts,     \* how many timers each of them may file
          Last       \* the last tick, at which the last round opens

Rounds == 1 .. Last
Never == Last + 1
None == 0

VARIABLES
    now,     \* the system's clock
    pc,      \* where each producer stands
    left,    \* timers that each may still file
    at,      \* the round that each files for
    nbuf,    \* the producer's notice is still in its store buffer
    abuf,    \* so is its wish in the doorbell
    ebuf,    \* the expiration that it publishes, still in its store buffer
    inbox,   \* entries in the bucket's lanes, by round
    notices, \* rounds whose notices the reaper has not read
    armed,   \* the expiration that the bucket publishes
    asks,    \* the doorbell's wish for a turn
    rpc,     \* where the reaper stands
    clock,   \* the shard's clock
    cbuf,    \* the same, still in the reaper's store buffer
    heap,    \* the armed heap
    aside,   \* entries that were put aside, by round
    next,    \* when the reaper wants to wake up
    wakes,   \* the published wake-up time: 0 while the reaper is awake
    wbuf,    \* the same, still in the reaper's store buffer, or Empty
    bell     \* the token of the reaper's parking place

producers == <<pc, left, at, nbuf, abuf, ebuf>>
memory == <<inbox, notices, armed, asks, bell>>
reaper == <<rpc, clock, cbuf, heap, aside, next, wakes, wbuf>>
vars == <<now, producers, memory, reaper>>

Empty == Never + 1
Min(S) == IF S = {} THEN Never ELSE CHOOSE x \in S : \A y \in S : x <= y
Max(x, y) == IF x > y THEN x ELSE y

Init == /\ now = 0
        /\ pc = [p \in Producers |-> "idle"] /\ left = [p \in Producers |-> Posts]
        /\ at = [p \in Producers |-> None] /\ ebuf = [p \in Producers |-> None]
        /\ nbuf = [p \in Producers |-> FALSE] /\ abuf = [p \in Producers |-> FALSE]
        /\ inbox = [x \in Rounds |-> 0] /\ notices = {} /\ armed = None
        /\ asks = FALSE /\ bell = FALSE
        /\ rpc = "pass" /\ clock = 0 /\ cbuf = 0 /\ heap = {}
        /\ aside = [x \in Rounds |-> 0] /\ next = Never
        /\ wakes = 0 /\ wbuf = Empty

Tick == /\ now < Last
        /\ now' = now + 1
        /\ UNCHANGED <<producers, memory, reaper>>

(* --- A producer (Shard::place, file, announce) ---------------------------- *)

\* It chooses the round as seen from the later of the present and the shard's clock.
Choose(p) == /\ pc[p] = "idle" /\ left[p] > 0
             /\ \E x \in Rounds : /\ x >= Max(now, clock)
                                  /\ at' = [at EXCEPT ![p] = x]
             /\ left' = [left EXCEPT ![p] = left[p] - 1]
             /\ pc' = [pc EXCEPT ![p] = "push"]
             /\ UNCHANGED <<now, nbuf, abuf, ebuf, memory, reaper>>

\* BUCKET-PUSH: a CAS, which acquires the clock of every take before it.
Push(p) == /\ pc[p] = "push"
           /\ inbox' = [inbox EXCEPT ![at[p]] = inbox[at[p]] + 1]
           /\ pc' = [pc EXCEPT ![p] = "look"]
           /\ UNCHANGED <<now, left, at, nbuf, abuf, ebuf, notices, armed, asks, bell, reaper>>

\* What follows if the producer cannot rely on the bucket: it posts a notice, then asks.
Announce(p) == /\ pc' = [pc EXCEPT ![p] = "fence"]
               /\ nbuf' = [nbuf EXCEPT ![p] = TRUE]
               /\ abuf' = [abuf EXCEPT ![p] = TRUE]
               /\ UNCHANGED at

Rest(p) == /\ pc' = [pc EXCEPT ![p] = "idle"]
           /\ at' = [at EXCEPT ![p] = None]

\* BUCKET-ARM: both are read after the push.
LookArmed(p) == /\ pc[p] = "look"
                /\ IF armed = at[p]
                   THEN pc' = [pc EXCEPT ![p] = "rely"] /\ UNCHANGED <<at, nbuf, abuf>>
                   ELSE Announce(p)
                /\ UNCHANGED <<now, left, ebuf, memory, reaper>>

LookClock(p) == /\ pc[p] = "rely"
                /\ IF clock < at[p]
                   THEN Rest(p) /\ UNCHANGED <<nbuf, abuf>>
                   ELSE Announce(p)
                /\ UNCHANGED <<now, left, ebuf, memory, reaper>>

\* The expiration is published last. (A store before it may still be in the buffer: the later one
\* replaces it.)
Arm(p) == ebuf' = [ebuf EXCEPT ![p] = at[p]]

\* DOORBELL: post, ask, fence, read the wake-up time, and ring if that is too late.
ReadWakes(p) == /\ pc[p] = "fence" /\ ~nbuf[p] /\ ~abuf[p]
                /\ IF at[p] < wakes
                   THEN pc' = [pc EXCEPT ![p] = "ring"] /\ UNCHANGED <<at, ebuf>>
                   ELSE Rest(p) /\ Arm(p)
                /\ UNCHANGED <<now, left, nbuf, abuf, memory, reaper>>

Ring(p) == /\ pc[p] = "ring"
           /\ bell' = TRUE
           /\ Rest(p) /\ Arm(p)
           /\ UNCHANGED <<now, left, nbuf, abuf, inbox, notices, armed, asks, reaper>>

FlushNotice(p) == /\ nbuf[p]
                  /\ nbuf' = [nbuf EXCEPT ![p] = FALSE]
                  /\ notices' = notices \cup {at[p]}
                  /\ UNCHANGED <<now, pc, left, at, abuf, ebuf, inbox, armed, asks, bell, reaper>>

\* Release: the notice is there before.
FlushAsk(p) == /\ abuf[p] /\ ~nbuf[p]
               /\ abuf' = [abuf EXCEPT ![p] = FALSE]
               /\ asks' = TRUE
               /\ UNCHANGED <<now, pc, left, at, nbuf, ebuf, inbox, notices, armed, bell, reaper>>

\* Release: the notice is there before.
FlushArm(p) == /\ ebuf[p] /= None /\ ~nbuf[p]
               /\ armed' = ebuf[p]
               /\ ebuf' = [ebuf EXCEPT ![p] = None]
               /\ UNCHANGED <<now, pc, left, at, nbuf, abuf, inbox, notices, asks, bell, reaper>>

(* --- The reaper (serve, turn, open_due, put_aside) ------------------------- *)

\* Whether the shard needs a turn. `take_ask` takes the wish back before the turn begins.
\* Otherwise the reaper publishes when it will wake up (DOORBELL).
Pass == /\ rpc = "pass"
        /\ IF asks \/ next <= now
           THEN /\ rpc' = "begin" /\ asks' = FALSE /\ next' = Never /\ UNCHANGED wbuf
           ELSE /\ rpc' = "fence" /\ wbuf' = next /\ UNCHANGED <<asks, next>>
        /\ UNCHANGED <<now, producers, inbox, notices, armed, bell>>
        /\ UNCHANGED <<clock, cbuf, heap, aside, wakes>>

\* The clock moves on, Relaxed, before any list is taken.
Begin == /\ rpc = "begin"
         /\ cbuf' = now
         /\ heap' = heap \cup notices /\ notices' = {} /\ rpc' = "open"
         /\ UNCHANGED <<now, producers, inbox, armed, asks, bell>>
         /\ UNCHANGED <<clock, aside, next, wakes, wbuf>>

\* A due bucket: the swap releases the clock. Entries of other rounds are put aside.
Open == /\ rpc = "open" /\ Min(heap) <= cbuf
        /\ LET x == Min(heap) IN
           /\ Min(heap) <= Min({y \in Rounds : aside[y] > 0})
           /\ clock' = cbuf
           /\ heap' = heap \ {x}
           /\ aside' = [y \in Rounds |-> IF y <= x THEN aside[y] ELSE aside[y] + inbox[y]]
           /\ inbox' = [y \in Rounds |-> 0]
        /\ UNCHANGED <<now, producers, notices, armed, asks, bell>>
        /\ UNCHANGED <<rpc, cbuf, next, wakes, wbuf>>

OpenAside == /\ rpc = "open"
             /\ LET x == Min({y \in Rounds : aside[y] > 0}) IN
                /\ x <= cbuf /\ x < Min(heap)
                /\ aside' = [aside EXCEPT ![x] = 0]
             /\ UNCHANGED <<now, producers, memory, rpc, clock, cbuf, heap, next, wakes, wbuf>>

Report == /\ rpc = "open"
          /\ Min(heap) > cbuf /\ Min({y \in Rounds : aside[y] > 0}) > cbuf
          /\ heap' = heap \cup notices /\ notices' = {}
          /\ next' = Min(heap' \cup {y \in Rounds : aside[y] > 0})
          /\ rpc' = "pass"
          /\ UNCHANGED <<now, producers, inbox, armed, asks, bell>>
          /\ UNCHANGED <<clock, cbuf, aside, wakes, wbuf>>

FlushClock == /\ clock /= cbuf
              /\ clock' = cbuf
              /\ UNCHANGED <<now, producers, memory, rpc, cbuf, heap, aside, next, wakes, wbuf>>

FlushWakes == /\ wbuf /= Empty
              /\ wakes' = wbuf /\ wbuf' = Empty
              /\ UNCHANGED <<now, producers, memory, rpc, clock, cbuf, heap, aside, next>>

\* After the fence, it looks who asks. If nobody does, it sleeps.
Look == /\ rpc = "fence" /\ wbuf = Empty
        /\ IF asks
           THEN rpc' = "pass" /\ wbuf' = 0
           ELSE rpc' = "sleep" /\ UNCHANGED wbuf
        /\ UNCHANGED <<now, producers, memory, clock, cbuf, heap, aside, next, wakes>>

\* Rung, or in time. It retracts the time: nobody has to ring now.
Wake == /\ rpc = "sleep" /\ (bell \/ next <= now)
        /\ bell' = FALSE /\ wbuf' = 0 /\ rpc' = "pass"
        /\ UNCHANGED <<now, producers, inbox, notices, armed, asks>>
        /\ UNCHANGED <<clock, cbuf, heap, aside, next, wakes>>

Reaper == Pass \/ Begin \/ Open \/ OpenAside \/ Report \/ Look \/ Wake
Producer(p) == Push(p) \/ LookArmed(p) \/ LookClock(p) \/ ReadWakes(p) \/ Ring(p)
Buffers(p) == FlushNotice(p) \/ FlushAsk(p) \/ FlushArm(p)

Next == \/ Tick \/ Reaper \/ FlushClock \/ FlushWakes
        \/ \E p \in Producers : Choose(p) \/ Producer(p) \/ Buffers(p)

\* A thread that can go on does so, a buffer empties, time passes. Nobody has to file a timer.
Spec == /\ Init /\ [][Next]_vars
        /\ WF_vars(Tick) /\ WF_vars(Reaper) /\ WF_vars(FlushClock) /\ WF_vars(FlushWakes)
        /\ \A p \in Producers : /\ WF_vars(Producer(p)) /\ WF_vars(FlushNotice(p))
                                /\ WF_vars(FlushAsk(p)) /\ WF_vars(FlushArm(p))

TypeOK == /\ now \in 0 .. Last /\ clock \in 0 .. Last /\ cbuf \in 0 .. Last
          /\ wakes \in 0 .. Never /\ wbuf \in 0 .. Empty /\ next \in 1 .. Never
          /\ heap \subseteq Rounds /\ notices \subseteq Rounds

\* Nothing is filed, in the bucket or aside.
AllFired == \A x \in Rounds : inbox[x] = 0 /\ aside[x] = 0

\* Coverage, as the header of crates/core/src/shard/mod.rs has it.
Covered == \A x \in Rounds : inbox[x] > 0 =>
              \/ \E y \in heap \cup notices : y <= x
              \/ \E p \in Producers : at[p] = x /\ (pc[p] /= "idle" \/ nbuf[p])

\* A reaper that sleeps, and that nobody is about to wake, sleeps no longer than until the first
\* round that holds an entry.
Punctual == rpc = "sleep" /\ ~bell /\ (\A p \in Producers : pc[p] = "idle" /\ ~nbuf[p]) =>
               \A x \in Rounds : inbox[x] + aside[x] > 0 => next <= x

\* Every entry that is filed fires.
EveryEntryFires == \A x \in Rounds : (inbox[x] > 0) ~> (inbox[x] = 0)
EndsEmpty == <>[]AllFired

\* When nothing is left to do, the reaper sleeps, and it stays asleep: no spin.
ComesToRest == <>[](rpc = "sleep")
=============================================================================
