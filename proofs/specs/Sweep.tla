-------------------------------- MODULE Sweep -------------------------------
(* Dead entries are bounded, though the reaper may be inside a task for ever: *)
(* a thread that lets go of seats while there are too many visits some itself.*)
(*                                                                            *)
(* Entries lie in the order in which a sweep meets them. An entry that is     *)
(* filed, or let go, behind the sweep is met by the next one. `unswept` tells *)
(* whether there is anything for that one. The reaper sweeps, or it does not. *)
(*                                                                            *)
(* One shard. Of several, threads sweep one to the end of its sweep, and then *)
(* the next (a unit test of core/src/producer/deferred.rs holds that order).  *)
(* Whether they visit enough then is a sum over the shards, which             *)
(* proofs/arithmetic proves: "a round is paid for", and the bounds on the     *)
(* dead. It takes for granted what a sweep of any one shard does, and that is *)
(* here: it visits an entry at most once, and frees what it finds dead; and a *)
(* sweep that is asked for while another one is under way comes after that.   *)
(*                                                                            *)
(* Here, a thread whose sweep ends makes its other visits in the next one, if *)
(* that is to begin. The engine's thread returns, as it does when too many    *)
(* buckets were empty. The proofs count such visits as lost, and one that is  *)
(* made in a later shard, because there is none to make in this one, as any.  *)
EXTENDS Naturals, FiniteSets

CONSTANTS Entries, \* places of entries, 1 .. Entries
          Group,   \* seats that a thread lets go of at once
          Help,    \* entries that it visits then
          Least    \* there may always be so many dead entries

Places == 1 .. Entries

VARIABLES
    state,   \* of each entry: "free", "living", "kept" (a seat) or "dead"
    at,      \* the place that the sweep visits next; Entries + 1: no sweep is under way
    unswept, \* dead entries were left since the last sweep began
    asked,   \* a sweep was asked for (SWEEP)
    helps    \* visits that a thread still makes before it returns

vars == <<state, at, unswept, asked, helps>>

None == Entries + 1
Of(what) == {x \in Places : state[x] = what}
Living == Cardinality(Of("living"))
Dead == Cardinality(Of("dead"))
Max(x, y) == IF x > y THEN x ELSE y

\* Enough for a sweep to begin, by the figures of core/src/memory/balance.rs.
TooMany == 2 * Dead > Max(Living, Least)

Init == /\ state = [x \in Places |-> "free"]
        /\ at = None /\ unswept = FALSE /\ asked = FALSE /\ helps = 0

\* A timer takes a seat, or an entry of its own.
Schedule(x) == /\ helps = 0 /\ state[x] \in {"free", "kept"}
               /\ state' = [state EXCEPT ![x] = "living"]
               /\ UNCHANGED <<at, unswept, asked, helps>>

\* Cancelled: the thread keeps the seat, in a cache of few.
Cancel(x) == /\ helps = 0 /\ state[x] = "living"
             /\ Cardinality(Of("kept")) < Group
             /\ state' = [state EXCEPT ![x] = "kept"]
             /\ UNCHANGED <<at, unswept, asked, helps>>

\* The cache is full: all its seats are let go. If too many are dead then, the thread asks for a
\* sweep, and helps.
LetGo == /\ helps = 0 /\ Cardinality(Of("kept")) = Group
         /\ state' = [x \in Places |-> IF state[x] = "kept" THEN "dead" ELSE state[x]]
         /\ unswept' = TRUE
         /\ asked' = (asked \/ 2 * (Dead + Group) > Max(Living, Least))
         /\ helps' = IF 2 * (Dead + Group) > Max(Living, Least) THEN Help ELSE 0
         /\ UNCHANGED at

\* Fires: the reaper's turn, if it has one.
Fire(x) == /\ helps = 0 /\ state[x] = "living"
           /\ state' = [state EXCEPT ![x] = "free"]
           /\ UNCHANGED <<at, unswept, asked, helps>>

\* A sweep begins if it was asked for, or if there are too many that it has not seen.
CanBegin == at = None /\ (asked \/ (TooMany /\ unswept))
Begin == /\ CanBegin
         /\ at' = 1 /\ asked' = FALSE /\ unswept' = FALSE
         /\ UNCHANGED <<state, helps>>

\* One visit: the dead become free memory. Places without an entry cost nothing.
Filed == {x \in Places : x >= at /\ state[x] /= "free"}
Visit == /\ at /= None
         /\ \/ /\ Filed = {}
               /\ at' = None /\ UNCHANGED <<state, helps>>
            \/ /\ Filed /= {}
               /\ LET x == CHOOSE y \in Filed : \A z \in Filed : y <= z IN
                  /\ state' = [state EXCEPT ![x] = IF state[x] = "dead" THEN "free" ELSE state[x]]
                  /\ at' = x + 1
               /\ helps' = IF helps > 0 THEN helps - 1 ELSE 0
         /\ UNCHANGED <<unswept, asked>>

\* There is nothing to help with.
HelpIsOver == /\ helps > 0 /\ at = None /\ ~CanBegin
              /\ helps' = 0
              /\ UNCHANGED <<state, at, unswept, asked>>

Next == \/ \E x \in Places : Schedule(x) \/ Cancel(x) \/ Fire(x)
        \/ LetGo \/ Begin \/ Visit \/ HelpIsOver

\* A thread that helps goes on; the reaper need not do anything.
Spec == /\ Init /\ [][Next]_vars
        /\ WF_vars(helps > 0 /\ (Begin \/ Visit \/ HelpIsOver))

\* With a reaper that comes back from its task.
WithReaper == Spec /\ WF_vars(Begin \/ Visit \/ HelpIsOver)

TypeOK == at \in 1 .. None /\ helps \in 0 .. Help

\* As many as the living, or the least, and the seats of the thread.
Bounded == helps = 0 => Dead <= Max(Living, Least) + Group

\* A thread that helps returns.
HelpEnds == (helps > 0) ~> (helps = 0)

\* Too many are not left for good.
Swept == TooMany ~> ~TooMany
=============================================================================
