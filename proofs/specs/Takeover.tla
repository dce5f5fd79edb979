------------------------------ MODULE Takeover ------------------------------
(* Taking over: a reaper hands payloads over, one of which may never end. The *)
(* watcher notices, and takes the rest of the line. Each payload runs once,   *)
(* and all run in the end but the one that is stuck.                          *)
(*                                                                            *)
(* The holder's fence at a claim is light: the store of the word may still be *)
(* in its store buffer when it looks whether anybody takes over. The taker's  *)
(* fence is heavy: it empties all buffers. Around the opening of a line, and  *)
(* around the watcher's times, both sides have a full fence.                  *)
EXTENDS Naturals, FiniteSets

CONSTANTS Last \* payloads in a line: 1 .. Last

Payloads == 1 .. Last
None == 0
Open == 100   \* the word of an open line of which nothing is claimed
Closed == 99  \* the word of a line that was not opened, or was closed

VARIABLES
    stuck,    \* the payload that may run for ever, or None
    runs,     \* how many times each payload began to run
    ended,    \* payloads whose run is over
    hpc,      \* where the holder stands
    word,     \* the line's word: Open + claimed, or Closed
    wbuf,     \* the same, still in the holder's store buffer, or None
    mine,     \* how many the holder has claimed, as it knows
    wanted,   \* a thread takes over, or has done so
    tbuf,     \* the same, still in the taker's store buffer: "", "set", "clear"
    lock,     \* the taker has the lock of `taken`
    taken,    \* from which payload on another thread has the rest, or None
    looks,    \* when the watcher looks: "never" (until called) or "soon"
    lbuf,     \* the same, still in the watcher's store buffer, or ""
    token,    \* the watcher's token
    pc,       \* where the watcher stands, which becomes the taker
    seen,     \* the progress that it has seen, or None
    rest      \* payloads that the taker runs

holder == <<hpc, wbuf, mine>>
watcher == <<pc, seen, rest, tbuf, lbuf>>
vars == <<stuck, runs, ended, holder, watcher, word, wanted, lock, taken, looks, token>>

Init == /\ stuck \in Payloads \cup {None}
        /\ runs = [x \in Payloads |-> 0] /\ ended = {}
        /\ hpc = "begin" /\ word = Closed /\ wbuf = None /\ mine = 0
        /\ wanted = FALSE /\ tbuf = "" /\ lock = FALSE /\ taken = None
        /\ looks \in {"never", "soon"} /\ lbuf = "" /\ token = FALSE
        /\ pc = "look" /\ seen = None /\ rest = {}

Begins(x) == runs' = [runs EXCEPT ![x] = runs[x] + 1]

(* --- The holder (InHand::open, Watch::begun, Line::claim, InHand::close) --- *)

OpenLine == /\ hpc = "begin"
            /\ wbuf' = Open /\ hpc' = "fence"
            /\ UNCHANGED <<stuck, runs, ended, mine, watcher, word, wanted, lock, taken, looks, token>>

\* It fences, reads when the watcher looks, and calls it if that is too late.
Call == /\ hpc = "fence" /\ wbuf = None
        /\ token' = (token \/ looks = "never")
        /\ hpc' = "claim"
        /\ UNCHANGED <<stuck, runs, ended, wbuf, mine, watcher, word, wanted, lock, taken, looks>>

FlushWord == /\ wbuf /= None
             /\ word' = wbuf /\ wbuf' = None
             /\ UNCHANGED <<stuck, runs, ended, hpc, mine, watcher, wanted, lock, taken, looks, token>>

\* Claim: the store of the word, a light fence.
Claim == /\ hpc = "claim" /\ mine < Last /\ wbuf = None
         /\ wbuf' = Open + mine + 1 /\ mine' = mine + 1
         /\ hpc' = "is wanted"
         /\ UNCHANGED <<stuck, runs, ended, watcher, word, wanted, lock, taken, looks, token>>

\* And then the look whether anybody takes over.
IsWanted == /\ hpc = "is wanted"
            /\ \/ /\ wanted /\ hpc' = "keeps" /\ UNCHANGED runs
               \/ /\ ~wanted /\ hpc' = "run" /\ Begins(mine)
            /\ UNCHANGED <<stuck, ended, wbuf, mine, watcher, word, wanted, lock, taken, looks, token>>

\* It waits for the taker's lock. A claim from there on is taken back.
Keeps == /\ hpc = "keeps" /\ ~lock
         /\ \/ /\ taken = None \/ mine < taken
               /\ hpc' = "run" /\ Begins(mine)
               /\ UNCHANGED mine
            \/ /\ taken /= None /\ mine >= taken
               /\ hpc' = "close" /\ mine' = mine - 1
               /\ UNCHANGED runs
         /\ UNCHANGED <<stuck, ended, wbuf, watcher, word, wanted, lock, taken, looks, token>>

EndRun == /\ hpc = "run"
          /\ ended' = ended \cup {mine}
          /\ hpc' = "claim"
          /\ UNCHANGED <<stuck, runs, wbuf, mine, watcher, word, wanted, lock, taken, looks, token>>

Close == /\ \/ hpc = "close"
            \/ hpc = "claim" /\ mine = Last
         /\ wbuf = None
         /\ wbuf' = Closed /\ hpc' = "closing"
         /\ UNCHANGED <<stuck, runs, ended, mine, watcher, word, wanted, lock, taken, looks, token>>

\* It finds out whether it has lost the role.
EndClose == /\ hpc = "closing" /\ (wanted => ~lock)
            /\ hpc' = IF wanted /\ taken /= None THEN "lost" ELSE "done"
            /\ UNCHANGED <<stuck, runs, ended, wbuf, mine, watcher, word, wanted, lock, taken, looks, token>>

(* --- The watcher (Core::watch, Look::at, Line::take_over) ------------------ *)

Found == IF word = Closed THEN None ELSE word

\* A look. An idle line: it publishes that it sleeps until called, and looks once more.
\* A busy line: it looks again soon, and takes over what has not come any further.
Look == /\ pc = "look"
        /\ \/ /\ Found = None
              /\ seen' = None /\ lbuf' = "never" /\ pc' = "fence"
              /\ UNCHANGED lock
           \/ /\ Found /= None /\ Found /= seen
              /\ seen' = Found /\ lbuf' = "soon" /\ pc' = "fence"
              /\ UNCHANGED lock
           \/ /\ Found /= None /\ Found = seen /\ ~lock
              /\ lock' = TRUE /\ pc' = "want"
              /\ UNCHANGED <<seen, lbuf>>
        /\ UNCHANGED <<stuck, runs, ended, holder, rest, tbuf, word, wanted, taken, looks, token>>

FlushLooks == /\ lbuf /= ""
              /\ looks' = lbuf /\ lbuf' = ""
              /\ UNCHANGED <<stuck, runs, ended, holder, pc, seen, rest, tbuf, word, wanted, lock, taken, token>>

\* The look after the publication.
LookAgain == /\ pc = "fence" /\ lbuf = ""
             /\ pc' = IF looks = "never" /\ Found = None THEN "sleep" ELSE "pause"
             /\ UNCHANGED <<stuck, runs, ended, holder, seen, rest, tbuf, lbuf, word, wanted, lock, taken, looks, token>>

\* A sleep until called, or one that ends soon.
Wake == /\ \/ pc = "sleep" /\ token
           \/ pc = "pause"
        /\ token' = FALSE /\ pc' = "look"
        /\ UNCHANGED <<stuck, runs, ended, holder, seen, rest, tbuf, lbuf, word, wanted, lock, taken, looks>>

Want == /\ pc = "want"
        /\ tbuf' = "set" /\ pc' = "heavy"
        /\ UNCHANGED <<stuck, runs, ended, holder, seen, rest, lbuf, word, wanted, lock, taken, looks, token>>

FlushWanted == /\ tbuf /= ""
               /\ wanted' = (tbuf = "set") /\ tbuf' = ""
               /\ UNCHANGED <<stuck, runs, ended, holder, pc, seen, rest, lbuf, word, lock, taken, looks, token>>

\* The heavy fence empties the buffers of all threads.
Heavy == /\ pc = "heavy" /\ tbuf = ""
         /\ \/ wbuf /= None /\ word' = wbuf
            \/ wbuf = None /\ UNCHANGED word
         /\ wbuf' = None /\ pc' = "decide"
         /\ UNCHANGED <<stuck, runs, ended, hpc, mine, seen, rest, tbuf, lbuf, wanted, lock, taken, looks, token>>

\* The word as it was seen: the rest is the taker's. Otherwise it gives up, and looks again.
Decide == /\ pc = "decide"
          /\ \/ /\ word = seen
                /\ taken' = seen - Open + 1
                /\ rest' = {x \in Payloads : x > seen - Open}
                /\ pc' = "takes" /\ UNCHANGED <<tbuf, lock>>
             \/ /\ word /= seen
                /\ tbuf' = "clear" /\ lock' = FALSE /\ pc' = "look"
                /\ UNCHANGED <<taken, rest>>
          /\ UNCHANGED <<stuck, runs, ended, holder, seen, lbuf, word, wanted, looks, token>>

Unlock == /\ pc = "takes"
          /\ lock' = FALSE /\ pc' = "serve"
          /\ UNCHANGED <<stuck, runs, ended, holder, seen, rest, tbuf, lbuf, word, wanted, taken, looks, token>>

\* It runs the rest, in its own turns.
Serve == /\ pc = "serve"
         /\ \E x \in rest : /\ \A y \in rest : x <= y
                            /\ Begins(x) /\ rest' = rest \ {x}
                            /\ ended' = ended \cup {x}
         /\ UNCHANGED <<stuck, holder, pc, seen, tbuf, lbuf, word, wanted, lock, taken, looks, token>>

Holder == OpenLine \/ Call \/ Claim \/ IsWanted \/ Keeps \/ Close \/ EndClose
Watcher == Look \/ LookAgain \/ Wake \/ Want \/ Heavy \/ Decide \/ Unlock \/ Serve

Next == Holder \/ EndRun \/ Watcher \/ FlushWord \/ FlushLooks \/ FlushWanted

\* A task ends in the end, but for the one that is stuck.
Spec == /\ Init /\ [][Next]_vars
        /\ WF_vars(Holder) /\ WF_vars(EndRun /\ mine /= stuck)
        /\ SF_vars(Keeps) /\ SF_vars(EndClose)
        /\ WF_vars(Watcher) /\ WF_vars(FlushWord) /\ WF_vars(FlushLooks) /\ WF_vars(FlushWanted)

TypeOK == /\ mine \in 0 .. Last
          /\ word \in (Open .. (Open + Last)) \cup {Closed}

\* Each payload runs once.
Once == \A x \in Payloads : runs[x] <= 1

\* Whatever is stuck, all others run to their end.
OthersRun == \A x \in Payloads : <>(x \in ended \/ x = stuck)

\* A holder that comes back from its task finds out which of the two it is.
HolderEnds == [](hpc \in {"close", "closing"} => <>(hpc \in {"lost", "done"}))

\* Once nothing is in hand, the watcher sleeps until it is called: it does not poll.
Quiet == (hpc = "done" /\ taken = None) ~> (pc = "sleep" /\ looks = "never" /\ ~token)
=============================================================================
