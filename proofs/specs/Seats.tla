-------------------------------- MODULE Seats -------------------------------
(* One entry, its holder and the owner of its shard: cancel, reset, fire,     *)
(* re-file, take a seat, let go. Each decides by one CAS of the state word,   *)
(* and reads before it. Every timer fires in its tick or is cancelled, its    *)
(* payload is taken once, and the memory is freed once, by the last party.    *)
EXTENDS Naturals

CONSTANTS Last,    \* the last tick
          Resets,  \* how many resets the holder makes
          Reuses,  \* how many timers take the seat
          Versions \* the versions are a ring of so many

Ticks == 1 .. Last
None == 0

VARIABLES
    now,      \* the time of the owner's turn
    phase,    \* the word: "pending", "vacant", "fired"
    due,      \* the word: the deadline
    ver,      \* the word: the version
    held,     \* the word: the holder has it
    list,     \* the word: a list, or the owner, has it
    filed,    \* the place that the entry says it is filed at
    lies,     \* the bucket in whose list it lies; None while it is in none
    freed,    \* how many times the memory was freed
    payload,  \* "in" or "out"
    taken,    \* a payload was taken that was not there
    late,     \* a timer fired before its tick, or was passed
    hpc,      \* where the holder stands
    hword,    \* the word that it read
    hfiled,   \* the place that it read
    goal,     \* the deadline of its reset, or of the timer that takes the seat
    resets,   \* resets that are left
    reuses,   \* uses of the seat that are left
    opc,      \* where the owner stands
    oword,    \* the word that it read
    opened,   \* the bucket that it opened
    to        \* where it re-files to

word == <<phase, due, ver, held, list>>
holder == <<hpc, hword, hfiled, goal, resets, reuses>>
owner == <<opc, oword, opened, to>>
vars == <<now, word, filed, lies, freed, payload, taken, late, holder, owner>>

NoWord == <<"none", 0, 0, FALSE, FALSE>>

Init == /\ now = 0
        /\ phase = "pending" /\ due \in Ticks /\ ver = 0 /\ held = TRUE /\ list = TRUE
        /\ filed \in 1 .. due /\ lies = filed
        /\ freed = 0 /\ payload = "in" /\ taken = FALSE /\ late = FALSE
        /\ hpc = "timer" /\ hword = NoWord /\ hfiled = None /\ goal = None
        /\ resets = Resets /\ reuses = Reuses
        /\ opc = "idle" /\ oword = NoWord /\ opened = None /\ to = None

TakePayload == payload' = "out" /\ taken' = (taken \/ payload = "out")
SetWord(p, d, v, h, l) == phase' = p /\ due' = d /\ ver' = v /\ held' = h /\ list' = l
Free == freed' = freed + 1
Bump(v) == (v + 1) % Versions

(* --- The holder: the handle of a timer, then the producer of a seat -------- *)

\* It begins a reset or a cancel, and reads the word.
ReadWord == /\ hpc = "timer"
            /\ \/ hpc' = "cancel" /\ goal' = None /\ UNCHANGED resets
               \/ /\ resets > 0 /\ resets' = resets - 1
                  /\ goal' \in Ticks /\ hpc' = "place"
            /\ hword' = word
            /\ UNCHANGED <<now, word, filed, lies, freed, payload, taken, late, hfiled, reuses, owner>>

Gone == hword[1] /= "pending" \/ ~hword[5]

\* RESET-FIRE: then the place.
ReadPlace == /\ hpc = "place"
             /\ hfiled' = filed
             /\ hpc' = IF Gone THEN "over" ELSE IF goal < filed THEN "timer" ELSE "reset"
             /\ UNCHANGED <<now, word, filed, lies, freed, payload, taken, late, hword, goal, resets, reuses, owner>>

\* The CAS: the timer is due at the new time and at no other. Otherwise it reads again.
Reset == /\ hpc = "reset"
         /\ \/ /\ word = hword
               /\ due' = goal /\ hpc' = "timer" /\ UNCHANGED hword
            \/ /\ word /= hword
               /\ hword' = word /\ hpc' = "place" /\ UNCHANGED due
         /\ UNCHANGED <<now, phase, ver, held, list, filed, lies, freed, payload, taken, late>>
         /\ UNCHANGED <<hfiled, goal, resets, reuses, owner>>

\* CANCEL-FIRE: the winner has the payload. The holder is the producer of a seat now.
Cancel == /\ hpc = "cancel"
          /\ \/ /\ Gone
                /\ hpc' = "over" /\ UNCHANGED <<phase, payload, taken, hword, hfiled>>
             \/ /\ ~Gone /\ word = hword
                /\ phase' = "vacant" /\ hfiled' = filed /\ hpc' = "seat"
                /\ TakePayload /\ UNCHANGED hword
             \/ /\ ~Gone /\ word /= hword
                /\ hword' = word /\ UNCHANGED <<phase, payload, taken, hpc, hfiled>>
          /\ UNCHANGED <<now, due, ver, held, list, filed, lies, freed, late, goal, resets, reuses, owner>>

\* SEAT: the payload is put, then the CAS takes the seat for a timer that is due later.
PutPayload == /\ hpc = "seat" /\ reuses > 0
              /\ goal' \in {d \in Ticks : d >= hfiled}
              /\ payload' = "in" /\ hword' = word /\ hpc' = "sit"
              /\ reuses' = reuses - 1
              /\ UNCHANGED <<now, word, filed, lies, freed, taken, late, hfiled, resets, owner>>

\* If the owner unlinked the entry first, it is the producer's plain memory.
Sit == /\ hpc = "sit"
       /\ \/ /\ hword[5] /\ word = hword
             /\ SetWord("pending", goal, Bump(ver), TRUE, TRUE)
             /\ hpc' = "timer" /\ UNCHANGED <<freed, payload>>
          \/ /\ ~(hword[5] /\ word = hword)
             /\ hpc' = "end" /\ payload' = "out" /\ Free
             /\ UNCHANGED word
       /\ UNCHANGED <<now, filed, lies, taken, late, hword, hfiled, goal, resets, reuses, owner>>

\* RELEASE: it lets go, of a seat or of the handle of a timer that is over.
ReadToLetGo == /\ hpc \in {"seat", "over"}
               /\ hword' = word /\ hpc' = "let go"
               /\ UNCHANGED <<now, word, filed, lies, freed, payload, taken, late, hfiled, goal, resets, reuses, owner>>

LetGo == /\ hpc = "let go"
         /\ \/ /\ ~hword[5]
               /\ hpc' = "end" /\ Free
               /\ UNCHANGED <<word, hword>>
            \/ /\ hword[5] /\ word = hword
               /\ held' = FALSE /\ hpc' = "end"
               /\ UNCHANGED <<phase, due, ver, list, freed, hword>>
            \/ /\ hword[5] /\ word /= hword
               /\ hword' = word
               /\ UNCHANGED <<word, freed, hpc>>
         /\ UNCHANGED <<now, filed, lies, payload, taken, late, hfiled, goal, resets, reuses, owner>>

(* --- The owner: its turns open one bucket after the other ------------------ *)

\* No bucket is left behind: the armed heap has each (Arming).
Tick == /\ opc = "idle" /\ now < Last
        /\ (lies /= None => lies > now)
        /\ now' = now + 1
        /\ UNCHANGED <<word, filed, lies, freed, payload, taken, late, holder, owner>>

\* It takes the entry out of its bucket, and reads the word.
OpenBucket == /\ opc = "idle" /\ lies /= None /\ lies <= now
              /\ opened' = lies /\ lies' = None
              /\ oword' = word /\ opc' = "settle"
              /\ UNCHANGED <<now, word, filed, freed, payload, taken, late, holder, to>>

Again == oword' = word /\ UNCHANGED <<opc, to>>

\* One decision, by a CAS from the word that it read.
Unlink == /\ opc = "settle" /\ oword[1] = "vacant"
          /\ \/ /\ ~oword[4]
                /\ list' = FALSE /\ Free /\ opc' = "idle" /\ UNCHANGED oword
             \/ /\ oword[4] /\ word = oword
                /\ list' = FALSE /\ opc' = "idle" /\ UNCHANGED <<freed, oword>>
             \/ /\ oword[4] /\ word /= oword
                /\ oword' = word /\ UNCHANGED <<list, freed, opc>>
          /\ UNCHANGED <<now, phase, due, ver, held, filed, lies, payload, taken, late, holder, opened, to>>

Fire == /\ opc = "settle" /\ oword[1] = "pending" /\ oword[2] <= opened
        /\ \/ /\ word = oword
              /\ phase' = "fired" /\ opc' = "take" /\ UNCHANGED oword
              /\ late' = (late \/ oword[2] /= now)
           \/ /\ word /= oword
              /\ oword' = word /\ UNCHANGED <<phase, opc, late>>
        /\ UNCHANGED <<now, due, ver, held, list, filed, lies, freed, payload, taken, holder, opened, to>>

\* The payload is out before the list lets go.
Take == /\ opc = "take"
        /\ TakePayload /\ opc' = "release"
        /\ UNCHANGED <<now, word, filed, lies, freed, late, holder, oword, opened, to>>

Release == /\ opc = "release"
           /\ list' = FALSE /\ opc' = "idle"
           /\ \/ held /\ UNCHANGED freed
              \/ ~held /\ Free
           /\ UNCHANGED <<now, phase, due, ver, held, filed, lies, payload, taken, late, holder, oword, opened, to>>

\* It writes the place, then the CAS, then the push: to a bucket that opens later.
SetFiled == /\ opc = "settle" /\ oword[1] = "pending" /\ oword[2] > opened
            /\ \E x \in Ticks : x > opened /\ x <= oword[2] /\ to' = x /\ filed' = x
            /\ opc' = "refile"
            /\ UNCHANGED <<now, word, lies, freed, payload, taken, late, holder, oword, opened>>

Refile == /\ opc = "refile"
          /\ \/ /\ word = oword
                /\ ver' = Bump(ver) /\ lies' = to /\ opc' = "idle"
                /\ UNCHANGED oword
             \/ /\ word /= oword
                /\ oword' = word /\ opc' = "settle"
                /\ UNCHANGED <<ver, lies>>
          /\ UNCHANGED <<now, phase, due, held, list, filed, freed, payload, taken, late, holder, opened, to>>

Holder == ReadPlace \/ Reset \/ Cancel \/ Sit \/ LetGo
Begins == ReadWord \/ PutPayload \/ ReadToLetGo
Owner == OpenBucket \/ Unlink \/ Fire \/ Take \/ Release \/ SetFiled \/ Refile

Next == Holder \/ Begins \/ Owner \/ Tick

\* What has begun goes on, and turns come. A holder that keeps a timer need not do anything.
Spec == /\ Init /\ [][Next]_vars
        /\ WF_vars(Holder) /\ WF_vars(Owner) /\ WF_vars(Tick)
        /\ WF_vars(ReadToLetGo)

TypeOK == now \in 0 .. Last /\ ver \in 0 .. Versions - 1 /\ filed \in Ticks

\* The payload is taken once for each time that it is put, and never early or late.
PayloadOnce == ~taken
InItsTick == ~late

\* Memory is freed once, and only when nobody has the entry any more.
FreedOnce == freed <= 1
FreedLast == freed > 0 => opc \in {"idle"} /\ hpc = "end"

\* A timer lies in a bucket that opens when it is due, or before.
NeverTooLate == phase = "pending" /\ lies /= None => lies <= due /\ lies = filed

\* It fires, or was cancelled, and the memory comes back once the holder lets go.
Decided == (phase = "pending") ~> (phase /= "pending")
Reclaimed == (hpc = "end") ~> (freed = 1)
=============================================================================
