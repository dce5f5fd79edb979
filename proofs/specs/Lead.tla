-------------------------------- MODULE Lead --------------------------------
(* A group of shards: one thread leads, and sleeps by the doorbell; another   *)
(* one serves shards beside it. Each shard that asks for a turn gets one,     *)
(* also if it is served meanwhile. Only the leader publishes and sleeps.       *)
(* A thread that is in a turn may be slow, and another may take its lead.     *)
(*                                                                            *)
(* Times are the present (1), Later and Never. Stores wait in store buffers, as in Arming. *)
EXTENDS Naturals, FiniteSets

CONSTANTS Shards,  \* a set of numbers, e.g. {1, 2}
          Threads, \* a set of numbers from 1 on, e.g. {1, 2}
          Posts    \* how many times work is posted

Later == 2
Never == 3
Awake == 0
Served == 4
Empty == 9
None == 0

VARIABLES
    now,     \* 1, then Later
    work,    \* each shard has work for a turn at once
    rest,    \* each shard has work for a turn at Later
    posts,   \* posts that may still come
    asks,    \* the wishes in the doorbell
    ppc,     \* where the producer stands: "idle", "ask", "fence", "ring"
    target,  \* the shard that it posts to
    pbuf,    \* its wish is still in its store buffer
    lead,    \* the word: None, <<t, "kept">> or <<t, "lent">>
    role,    \* who has each shard's role, or None
    next,    \* when each shard needs its next turn, or Served
    nbuf,    \* for each thread: the same for its shard, still in its store buffer, or Empty
    wakes,   \* the published wake-up time
    wbuf,    \* the same, still in a leader's store buffer, or Empty
    token,   \* each thread's token
    answers, \* which thread answers the doorbell
    pc,      \* where each thread stands
    at,      \* the shard that it serves, or None
    told,    \* what the turn found: when the shard needs the next one
    leads    \* whether it led when its turn began

threads == <<lead, role, next, nbuf, wakes, wbuf, answers, pc, at, told, leads>>
producer == <<posts, ppc, target, pbuf>>
vars == <<now, rest, work, asks, token, threads, producer>>

Init == /\ now = 1 /\ rest = [s \in Shards |-> FALSE]
        /\ work = [s \in Shards |-> FALSE] /\ posts = Posts /\ asks = {}
        /\ ppc = "idle" /\ target = None /\ pbuf = FALSE
        /\ lead = <<1, "kept">>
        /\ role = [s \in Shards |-> None] /\ next = [s \in Shards |-> Never]
        /\ nbuf = [t \in Threads |-> Empty] /\ wakes = Awake /\ wbuf = Empty
        /\ token = [t \in Threads |-> FALSE] /\ answers = 1
        /\ pc = [t \in Threads |-> IF t = 1 THEN "pass" ELSE "spare"]
        /\ at = [t \in Threads |-> None] /\ told = [t \in Threads |-> Never]
        /\ leads = [t \in Threads |-> FALSE]

Goto(t, where) == pc' = [pc EXCEPT ![t] = where]
Unpark == token' = [token EXCEPT ![answers] = TRUE]

(* --- A producer: post, ask, fence, read the wake-up time ------------------- *)

Post == /\ ppc = "idle" /\ posts > 0
        /\ \E s \in Shards, more \in BOOLEAN :
             /\ target' = s /\ work' = [work EXCEPT ![s] = TRUE]
             /\ rest' = [rest EXCEPT ![s] = rest[s] \/ (more /\ now = 1)]
        /\ posts' = posts - 1 /\ pbuf' = TRUE /\ ppc' = "fence"
        /\ UNCHANGED <<now, asks, token, threads>>

FlushAsk == /\ pbuf
            /\ pbuf' = FALSE /\ asks' = asks \cup {target}
            /\ UNCHANGED <<now, rest, work, token, threads, posts, ppc, target>>

ReadWakes == /\ ppc = "fence" /\ ~pbuf
             /\ ppc' = IF 1 < wakes THEN "ring" ELSE "idle"
             /\ UNCHANGED <<now, rest, work, asks, token, threads, posts, target, pbuf>>

Ring == /\ ppc = "ring"
        /\ Unpark /\ ppc' = "idle"
        /\ UNCHANGED <<now, rest, work, asks, threads, posts, target, pbuf>>

(* --- A thread that serves (serve, pass, turn) ------------------------------ *)

Needs(s) == next[s] /= Served /\ (next[s] <= now \/ s \in asks)
Earliest == IF \E s \in Shards : next[s] = Later THEN Later ELSE Never
Called == \E s \in asks : next[s] /= Served

\* It takes the role of a shard that needs a turn, lends the lead, and takes the wish back.
Take(t, s) == /\ pc[t] = "pass" /\ Needs(s) /\ role[s] = None /\ nbuf[t] = Empty
              /\ role' = [role EXCEPT ![s] = t]
              /\ at' = [at EXCEPT ![t] = s]
              /\ leads' = [leads EXCEPT ![t] = (lead = <<t, "kept">>)]
              /\ lead' = IF lead = <<t, "kept">> THEN <<t, "lent">> ELSE lead
              /\ next' = [next EXCEPT ![s] = Served]
              /\ Goto(t, "answer")
              /\ UNCHANGED <<now, rest, work, asks, token, producer, nbuf, wakes, wbuf, answers, told>>

Answer(t) == /\ pc[t] = "answer"
             /\ asks' = asks \ {at[t]}
             /\ Goto(t, "turn")
             /\ UNCHANGED <<now, rest, work, token, producer, lead, role, next, nbuf, wakes, wbuf, answers, at, told, leads>>

\* The turn does the work of its time. Then the shard needs one more later, or none.
Turn(t) == /\ pc[t] = "turn"
           /\ work' = [work EXCEPT ![at[t]] = FALSE]
           /\ rest' = [rest EXCEPT ![at[t]] = rest[at[t]] /\ now = 1]
           /\ told' = [told EXCEPT ![t] = IF rest'[at[t]] THEN Later ELSE Never]
           /\ Goto(t, "end")
           /\ UNCHANGED <<now, asks, token, producer, lead, role, next, nbuf, wakes, wbuf, answers, at, leads>>

\* It says when the shard needs its next turn, and gives the role back, which releases that.
End(t) == /\ pc[t] = "end"
          /\ nbuf' = [nbuf EXCEPT ![t] = told[t]]
          /\ Goto(t, "back")
          /\ UNCHANGED <<now, rest, work, asks, token, producer, lead, role, next, wakes, wbuf, answers, at, told, leads>>

FlushNext(t) == /\ nbuf[t] /= Empty
                /\ next' = [next EXCEPT ![at[t]] = nbuf[t]]
                /\ nbuf' = [nbuf EXCEPT ![t] = Empty]
                /\ UNCHANGED <<now, rest, work, asks, token, producer, lead, role, wakes, wbuf, answers, pc, at, told, leads>>

Back(t) == /\ pc[t] = "back" /\ nbuf[t] = Empty
           /\ role' = [role EXCEPT ![at[t]] = None]
           /\ Goto(t, "reclaim")
           /\ UNCHANGED <<now, rest, work, asks, token, producer, lead, next, nbuf, wakes, wbuf, answers, at, told, leads>>

\* It keeps the lead again, unless another thread has taken it.
Reclaim(t) == /\ pc[t] = "reclaim"
              /\ \/ /\ leads[t] /\ lead = <<t, "lent">>
                    /\ lead' = <<t, "kept">> /\ Goto(t, "pass")
                    /\ at' = [at EXCEPT ![t] = None]
                 \/ /\ ~(leads[t] /\ lead = <<t, "lent">>)
                    /\ Goto(t, "settle")
                    /\ UNCHANGED <<lead, at>>
              /\ leads' = [leads EXCEPT ![t] = FALSE]
              /\ UNCHANGED <<now, rest, work, asks, token, producer, role, next, nbuf, wakes, wbuf, answers, told>>

\* Who does not lead wakes the leader if that sleeps for too long: fence, read the doorbell.
\* Then it looks once more (below).
Settle(t) == /\ pc[t] = "settle" /\ nbuf[t] = Empty
             /\ IF told[t] < wakes THEN Unpark ELSE UNCHANGED token
             /\ at' = [at EXCEPT ![t] = None]
             /\ Goto(t, "pass")
             /\ UNCHANGED <<now, rest, work, asks, producer, lead, role, next, nbuf, wakes, wbuf, answers, told, leads>>

\* It looks once more who asks, and leaves if it finds no shard to serve.
Leaves(t) == /\ pc[t] = "pass" /\ lead /= <<t, "kept">>
             /\ \A s \in Shards : Needs(s) => role[s] /= None
             /\ Goto(t, "spare")
             /\ UNCHANGED <<now, rest, work, asks, token, producer, lead, role, next, nbuf, wakes, wbuf, answers, at, told, leads>>

\* A spare thread takes a lead that was lent, since a turn takes long; it answers from then on.
TakeLead(t) == /\ pc[t] = "spare"
               /\ \E u \in Threads \ {t} : lead = <<u, "lent">>
               /\ lead' = <<t, "kept">>
               /\ answers' = t /\ wbuf' = Awake
               /\ Goto(t, "pass")
               /\ UNCHANGED <<now, rest, work, asks, token, producer, role, next, nbuf, wakes, at, told, leads>>

(* --- The leader: publish, fence, look, sleep ------------------------------- *)

Publish(t) == /\ pc[t] = "pass" /\ lead = <<t, "kept">>
              /\ \A s \in Shards : ~Needs(s)
              /\ wbuf' = Earliest /\ Goto(t, "fence")
              /\ UNCHANGED <<now, rest, work, asks, token, producer, lead, role, next, nbuf, wakes, answers, at, told, leads>>

FlushWakes == /\ wbuf /= Empty
              /\ wakes' = wbuf /\ wbuf' = Empty
              /\ UNCHANGED <<now, rest, work, asks, token, producer, lead, role, next, nbuf, answers, pc, at, told, leads>>

Look(t) == /\ pc[t] = "fence" /\ wbuf = Empty
           /\ \/ /\ Earliest < wakes \/ Called
                 /\ wbuf' = Awake /\ Goto(t, "pass")
              \/ /\ ~(Earliest < wakes \/ Called)
                 /\ Goto(t, "sleep") /\ UNCHANGED wbuf
           /\ UNCHANGED <<now, rest, work, asks, token, producer, lead, role, next, nbuf, wakes, answers, at, told, leads>>

Wake(t) == /\ pc[t] = "sleep" /\ (token[t] \/ wakes <= now)
           /\ token' = [token EXCEPT ![t] = FALSE]
           /\ wbuf' = Awake /\ Goto(t, "pass")
           /\ UNCHANGED <<now, rest, work, asks, producer, lead, role, next, nbuf, wakes, answers, at, told, leads>>

Tick == /\ now = 1
        /\ now' = Later
        /\ UNCHANGED <<rest, work, asks, token, threads, producer>>

Thread(t) == \/ \E s \in Shards : Take(t, s)
             \/ Answer(t) \/ Turn(t) \/ End(t) \/ Back(t) \/ Reclaim(t) \/ Settle(t)
             \/ Leaves(t) \/ Publish(t) \/ Look(t) \/ Wake(t)

Next == \/ Tick \/ Post \/ FlushAsk \/ ReadWakes \/ Ring \/ FlushWakes
        \/ \E t \in Threads : Thread(t) \/ FlushNext(t) \/ TakeLead(t)

\* Nobody has to post, or to take a lead that was lent.
Spec == /\ Init /\ [][Next]_vars
        /\ WF_vars(Tick) /\ WF_vars(FlushAsk) /\ WF_vars(ReadWakes) /\ WF_vars(Ring) /\ WF_vars(FlushWakes)
        /\ \A t \in Threads : WF_vars(Thread(t))
        /\ \A t \in Threads : WF_vars(FlushNext(t))

TypeOK == /\ \A s \in Shards : next[s] \in {Later, Never, Served} /\ role[s] \in Threads \cup {None}
          /\ answers \in Threads

\* Only who keeps the lead publishes or sleeps, and that is the thread that a ring wakes.
OneLeader == \A t \in Threads : pc[t] \in {"fence", "sleep"} => lead = <<t, "kept">> /\ answers = t

\* Work that is posted is done.
AllServed == \A s \in Shards : (work[s] \/ rest[s]) ~> (~work[s] /\ ~rest[s])

\* In the end one thread sleeps, and the others have left.
ComesToRest == <>[](\A t \in Threads : pc[t] = (IF lead = <<t, "kept">> THEN "sleep" ELSE "spare"))
=============================================================================
