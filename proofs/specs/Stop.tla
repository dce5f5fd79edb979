-------------------------------- MODULE Stop --------------------------------
(* The end of an engine with one shard: every payload fires, is returned, or  *)
(* is refused, once; every stopper returns; the handler is dropped last.      *)
(*                                                                            *)
(* A producer files, the reaper's thread runs turns, a caller waits for the   *)
(* role once (`Ending::take`), and each stopper stops. The words are changed  *)
(* by RMWs or under locks, so each step is one access or one critical section.*)
(*                                                                            *)
(* Assumed, since memory is sequentially consistent here: that a stopper      *)
(* which raises the flag and then looks at a line finds it open, or its       *)
(* holder finds the flag raised. The engine has a light fence and a heavy one *)
(* for that (`InHand::open`, `Ending::stop`): the model `ending` fails        *)
(* without the heavy one, and this spec would not.                            *)
EXTENDS Naturals, FiniteSets

CONSTANTS Payloads, \* a set, e.g. {"a", "b"}
          Stoppers, \* a set of threads that stop the engine
          Turners   \* a set of threads that run turns: "reaper", and a caller that waits

VARIABLES
    place,    \* of each payload: caller, filed, batch, hand, runs, fired,
              \* left, returned, refused; or late: it began to run after the flag was raised
    closed,   \* the mark in the shard's lanes
    flag,     \* the stop flag
    lock,     \* who has the owner lock
    role,     \* free, taken, awaited, ending, ended
    holder,   \* who has the role
    pc,       \* where each turner stands
    left,     \* turns that a waiting caller still wants
    waits,    \* the turners that wait by the role's condition variable
    wake,     \* the role's next waiters are about to be woken
    bell,     \* the reaper's token
    roles,    \* roles that have not ended
    handler,  \* there, gone
    over,     \* all has ended
    spc       \* where each stopper stands

vars == <<place, closed, flag, lock, role, holder, pc, left, waits, wake, bell, roles, handler, over, spc>>

Nobody == "nobody"
At(where) == {x \in Payloads : place[x] = where}
Move(from, to) == [x \in Payloads |-> IF place[x] = from THEN to ELSE place[x]]

Init == /\ place = [x \in Payloads |-> "caller"]
        /\ closed = FALSE /\ flag = FALSE /\ lock = Nobody
        /\ role = "free" /\ holder = Nobody
        /\ pc = [t \in Turners |-> "idle"]
        /\ left = [t \in Turners |-> IF t = "reaper" THEN 0 ELSE 1]
        /\ waits = {} /\ wake = FALSE /\ bell = FALSE
        /\ roles = 1 /\ handler = "there" /\ over = FALSE
        /\ spc = [s \in Stoppers |-> "idle"]

(* --- A producer (Shard::file) ---------------------------------------------- *)

\* The push is one CAS, and meets the mark or does not. The ring is Arming's.
File(x) == /\ place[x] = "caller"
           /\ place' = [place EXCEPT ![x] = IF closed THEN "refused" ELSE "filed"]
           /\ bell' = (bell \/ ~closed)
           /\ UNCHANGED <<closed, flag, lock, role, holder, pc, left, waits, wake, roles, handler, over, spc>>

(* --- A thread that runs turns (serve, Ending::take, Turns) ----------------- *)

Goto(t, where) == pc' = [pc EXCEPT ![t] = where]

\* The reaper sleeps until it is rung. A stop ends its loop.
Begin(t) == /\ pc[t] = "idle"
            /\ \/ /\ t = "reaper" /\ bell
                  /\ bell' = FALSE /\ Goto(t, IF flag THEN "done" ELSE "take")
                  /\ UNCHANGED left
               \/ /\ t /= "reaper" /\ left[t] > 0 /\ ~flag
                  /\ left' = [left EXCEPT ![t] = left[t] - 1] /\ Goto(t, "take")
                  /\ UNCHANGED bell
               \/ /\ t /= "reaper" /\ (left[t] = 0 \/ flag)
                  /\ Goto(t, "done")
                  /\ UNCHANGED <<left, bell>>
            /\ UNCHANGED <<place, closed, flag, lock, role, holder, waits, wake, roles, handler, over, spc>>

\* Role::take: the CAS, or the way into the wait. The reaper does not wait: it comes again.
Take(t) == /\ pc[t] = "take"
           /\ \/ /\ role = "free"
                 /\ role' = "taken" /\ holder' = t /\ Goto(t, "lock")
                 /\ UNCHANGED <<waits, bell>>
              \/ /\ role \in {"taken", "awaited"} /\ t = "reaper"
                 /\ Goto(t, "idle") /\ bell' = TRUE
                 /\ UNCHANGED <<role, holder, waits>>
              \/ /\ role = "taken" /\ t /= "reaper"
                 /\ role' = "awaited"
                 /\ UNCHANGED <<holder, waits, bell, pc>>
              \/ /\ role = "awaited" /\ t /= "reaper"
                 /\ waits' = waits \cup {t} /\ Goto(t, "wait")
                 /\ UNCHANGED <<role, holder, bell>>
              \/ /\ role \in {"ending", "ended"}
                 /\ Goto(t, "done")
                 /\ UNCHANGED <<role, holder, waits, bell>>
           /\ UNCHANGED <<place, closed, flag, lock, left, wake, roles, handler, over, spc>>

\* The wake-up of all who wait; each takes the lock and tries again.
Woken == /\ wake
         /\ pc' = [t \in Turners |-> IF t \in waits THEN "take" ELSE pc[t]]
         /\ waits' = {} /\ wake' = FALSE
         /\ UNCHANGED <<place, closed, flag, lock, role, holder, left, bell, roles, handler, over, spc>>

\* Under the owner lock: a closed shard has no turn; else the due payloads leave their bucket.
Collect(t) == /\ pc[t] = "lock" /\ lock = Nobody
              /\ \/ closed /\ Goto(t, "back") /\ UNCHANGED <<place, lock>>
                 \/ /\ ~closed
                    /\ place' = Move("filed", "batch")
                    /\ lock' = t /\ Goto(t, "fill")
              /\ UNCHANGED <<closed, flag, role, holder, left, waits, wake, bell, roles, handler, over, spc>>

\* The batch goes in hand under the lock.
Fill(t) == /\ pc[t] = "fill"
           /\ place' = Move("batch", "hand") /\ lock' = Nobody
           /\ Goto(t, "next")
           /\ UNCHANGED <<closed, flag, role, holder, left, waits, wake, bell, roles, handler, over, spc>>

\* The flag is read before each payload.
Check(t) == /\ pc[t] = "next"
            /\ Goto(t, IF flag \/ At("hand") = {} THEN "back" ELSE "claim")
            /\ UNCHANGED <<place, closed, flag, lock, role, holder, left, waits, wake, bell, roles, handler, over, spc>>

Claim(t) == /\ pc[t] = "claim"
            /\ \E x \in At("hand") : 
                 place' = [place EXCEPT ![x] = IF flag THEN "late" ELSE "runs"]
            /\ Goto(t, "run")
            /\ UNCHANGED <<closed, flag, lock, role, holder, left, waits, wake, bell, roles, handler, over, spc>>

\* Every task ends.
Run(t) == /\ pc[t] = "run"
          /\ place' = Move("runs", "fired")
          /\ Goto(t, "next")
          /\ UNCHANGED <<closed, flag, lock, role, holder, left, waits, wake, bell, roles, handler, over, spc>>

\* Role::give_back. The holder of a role that is ending ends it.
GiveBack(t) == /\ pc[t] = "back"
               /\ holder' = Nobody
               /\ \/ role = "taken" /\ role' = "free" /\ Goto(t, "idle") /\ UNCHANGED wake
                  \/ role = "awaited" /\ role' = "free" /\ wake' = TRUE /\ Goto(t, "idle")
                  \/ role = "ending" /\ role' = "ended" /\ Goto(t, "ended") /\ UNCHANGED wake
               /\ UNCHANGED <<place, closed, flag, lock, left, waits, bell, roles, handler, over, spc>>

(* --- The end of a role (role_ended), for turners and stoppers -------------- *)

\* Under the lock of the end: what is in hand is left to the stoppers.
CountOut == /\ place' = Move("hand", "left")
            /\ roles' = roles - 1

EndRole(t) == /\ pc[t] = "ended"
              /\ CountOut
              /\ Goto(t, IF roles = 1 THEN "drop" ELSE "done")
              /\ UNCHANGED <<closed, flag, lock, role, holder, left, waits, wake, bell, handler, over, spc>>

DropHandler(t) == /\ pc[t] = "drop"
                  /\ handler' = "gone" /\ over' = TRUE
                  /\ Goto(t, "done")
                  /\ UNCHANGED <<place, closed, flag, lock, role, holder, left, waits, wake, bell, roles, spc>>

(* --- A stopper (Ending::stop, Inner::stop) --------------------------------- *)

Step(s, where) == spc' = [spc EXCEPT ![s] = where]

Raise(s) == /\ spc[s] = "idle"
            /\ flag' = TRUE
            /\ Step(s, IF flag THEN "second" ELSE "first")
            /\ UNCHANGED <<place, closed, lock, role, holder, pc, left, waits, wake, bell, roles, handler, over>>

\* Under the owner lock. Closing a second time returns nothing.
Close(s) == /\ spc[s] \in {"first", "second"} /\ lock = Nobody
            /\ closed' = TRUE
            /\ place' = [x \in Payloads |->
                 IF place[x] = "filed" THEN "returned"
                 ELSE IF place[x] = "batch" THEN "returned" ELSE place[x]]
            /\ Step(s, IF spc[s] = "first" THEN "end first" ELSE "end second")
            /\ UNCHANGED <<flag, lock, role, holder, pc, left, waits, wake, bell, roles, handler, over>>

\* Role::end: ends a free role, or makes its holder end it.
End(s) == /\ spc[s] \in {"end first", "end second"}
          /\ LET then == IF spc[s] = "end first" THEN "ring" ELSE "await" IN
             \/ /\ role = "free" /\ role' = "ended"
                /\ CountOut
                /\ Step(s, IF spc[s] = "end first" THEN "drop, ring" ELSE "drop")
                /\ UNCHANGED wake
             \/ /\ role = "taken" /\ role' = "ending"
                /\ Step(s, then)
                /\ UNCHANGED <<place, roles, wake>>
             \/ /\ role = "awaited" /\ role' = "ending" /\ wake' = TRUE
                /\ Step(s, then)
                /\ UNCHANGED <<place, roles>>
             \/ /\ role \in {"ending", "ended"}
                /\ Step(s, then)
                /\ UNCHANGED <<place, role, roles, wake>>
          /\ UNCHANGED <<closed, flag, lock, holder, pc, left, waits, bell, handler, over>>

StopperDrops(s) == /\ spc[s] \in {"drop", "drop, ring"}
                   /\ handler' = "gone" /\ over' = TRUE
                   /\ Step(s, IF spc[s] = "drop" THEN "await" ELSE "ring")
                   /\ UNCHANGED <<place, closed, flag, lock, role, holder, pc, left, waits, wake, bell, roles>>

RingBell(s) == /\ spc[s] = "ring"
               /\ bell' = TRUE
               /\ Step(s, "await")
               /\ UNCHANGED <<place, closed, flag, lock, role, holder, pc, left, waits, wake, roles, handler, over>>

\* Waits for the end, then claims what was in hand when the role ended.
Await(s) == /\ spc[s] = "await" /\ over
            /\ place' = Move("left", "returned")
            /\ Step(s, "done")
            /\ UNCHANGED <<closed, flag, lock, role, holder, pc, left, waits, wake, bell, roles, handler, over>>

Turner(t) == \/ Begin(t) \/ Take(t) \/ Collect(t) \/ Fill(t) \/ Check(t) \/ Claim(t) \/ Run(t)
             \/ GiveBack(t) \/ EndRole(t) \/ DropHandler(t)
Stopper(s) == Close(s) \/ End(s) \/ StopperDrops(s) \/ RingBell(s) \/ Await(s)

Next == \/ \E x \in Payloads : File(x)
        \/ \E t \in Turners : Turner(t)
        \/ Woken
        \/ \E s \in Stoppers : Raise(s) \/ Stopper(s)

\* Nobody has to file or to stop; who has begun goes on. A thread gets a lock in the end.
Spec == /\ Init /\ [][Next]_vars
        /\ WF_vars(Woken)
        /\ \A t \in Turners : SF_vars(Collect(t)) /\ WF_vars(Turner(t))
        /\ \A s \in Stoppers : SF_vars(Close(s)) /\ WF_vars(Stopper(s))

TypeOK == /\ role \in {"free", "taken", "awaited", "ending", "ended"}
          /\ roles \in 0 .. 1
          /\ (holder = Nobody) = (role \in {"free", "ended"})

\* Only a holder of the role touches what is in hand, and the handler is there while it may.
HandlerThere == (\E t \in Turners : pc[t] \in {"lock", "fill", "next", "claim", "run", "back"})
                   => handler = "there"

\* A stop does not run the backlog: the flag is read before each payload.
AtMostOne == Cardinality(At("late")) <= 1

\* Once a stopper is done, nothing is anywhere inside. Two stoppers share what comes back.
AllOut == (\A s \in Stoppers : spc[s] = "done") =>
             \A x \in Payloads : place[x] \in {"caller", "fired", "late", "returned", "refused"}

\* Filed is fired or returned; all that began to stop returns; nobody is left waiting.
EachEnds == \A x \in Payloads : (place[x] = "filed") ~> (place[x] \in {"fired", "late", "returned"})
StopEnds == \A s \in Stoppers : (spc[s] /= "idle") ~> (spc[s] = "done")
TurnersEnd == flag ~> (\A t \in Turners : pc[t] = "done")
=============================================================================
