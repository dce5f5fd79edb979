/* Arming.tla once more, in another language and for another checker.
 * A store that a later load of its thread may overtake waits in a buffer; `buffers` empties them.
 * -DFENCES=0 leaves the fences out: a filed entry may then stay for ever.
 * spin -a [-DFENCES=0] arming.pml && gcc -O2 -DNFAIR=3 -o pan pan.c && ./pan -a -f -N fires
 */
#ifndef FENCES
#define FENCES 1
#endif
#ifndef PRODUCERS
#define PRODUCERS 2
#endif
#ifndef POSTS
#define POSTS 1
#endif
#ifndef LAST
#define LAST 2
#endif
#define NEVER (LAST + 1)
#define NONE 0
#define EMPTY (NEVER + 1)

byte now;
byte inbox[LAST + 1], aside[LAST + 1];     /* entries by round */
bool noted[LAST + 1], heap[LAST + 1];      /* unread notices, the armed heap */
byte armed = NONE, clock, wakes;           /* memory */
byte to_clock, to_wakes = EMPTY;           /* the reaper's store buffer */
byte to_note[PRODUCERS], to_armed[PRODUCERS];
bool to_ask[PRODUCERS];                    /* the producers' store buffers */
bool asks, bell, asleep;

#define FILED (inbox[1] || inbox[LAST] || aside[1] || aside[LAST])

ltl fires { [] (FILED -> <> !FILED) }
ltl rests { <> [] asleep }

active proctype time()
{
  do
  :: now < LAST -> now++
  :: else -> break
  od
}

active proctype buffers()
{
  byte p;
end:
  do
  :: atomic { to_clock != clock -> clock = to_clock }
  :: atomic { to_wakes != EMPTY -> wakes = to_wakes; to_wakes = EMPTY }
  :: atomic { to_note[0] -> noted[to_note[0]] = true; to_note[0] = NONE }
  :: atomic { to_ask[0] && !to_note[0] -> asks = true; to_ask[0] = false }
  :: atomic { to_armed[0] && !to_note[0] -> armed = to_armed[0]; to_armed[0] = NONE }
#if PRODUCERS > 1
  :: atomic { to_note[1] -> noted[to_note[1]] = true; to_note[1] = NONE }
  :: atomic { to_ask[1] && !to_note[1] -> asks = true; to_ask[1] = false }
  :: atomic { to_armed[1] && !to_note[1] -> armed = to_armed[1]; to_armed[1] = NONE }
#endif
  od
}

proctype producer(byte me)
{
  byte left = POSTS, at;
  bool relies;
  do
  :: left > 0 ->
     atomic {                                   /* Shard::place */
       left--;
       if
       :: 1 >= now && 1 >= clock -> at = 1
       :: at = LAST
       fi
     }
     inbox[at]++;                               /* BUCKET-PUSH */
     relies = (armed == at);                    /* BUCKET-ARM: both after the push */
     if
     :: relies -> relies = (clock < at)
     :: else
     fi;
     if
     :: relies
     :: else ->
        atomic { to_note[me] = at; to_ask[me] = true }
        (!FENCES || (!to_note[me] && !to_ask[me]));
        if                                      /* DOORBELL */
        :: at < wakes -> bell = true
        :: else
        fi;
        atomic { !to_note[me] -> to_armed[me] = at }
     fi
  :: break                                      /* nobody has to file */
  od
}

#define DUE(x) (x <= to_clock)

inline note_all()
{
  x = 1;
  do
  :: x <= LAST -> heap[x] = heap[x] || noted[x]; noted[x] = false; x++
  :: else -> break
  od
}

active proctype reaper()
{
  byte x, y, next = NEVER;
  do
  :: if
     :: atomic { asks || next <= now -> asks = false; next = NEVER }   /* answer */
        atomic { to_clock = now; note_all() }
        do
        :: atomic {                             /* a take: it releases the clock */
             x = 1;
             do
             :: x <= LAST && !(heap[x] || aside[x]) -> x++
             :: else -> break
             od;
             if
             :: x <= LAST && DUE(x) ->
                if
                :: heap[x] ->
                   heap[x] = false; clock = to_clock; aside[x] = 0; y = 1;
                   do
                   :: y <= LAST ->
                      if
                      :: y > x -> aside[y] = aside[y] + inbox[y]
                      :: else
                      fi;
                      inbox[y] = 0; y++
                   :: else -> break
                   od; y = 0
                :: else -> aside[x] = 0
                fi
             :: else -> goto report
             fi
           }
        od;
report: atomic {
          note_all();
          x = 1;
          do
          :: x <= LAST && !(heap[x] || aside[x]) -> x++
          :: else -> break
          od;
          next = x; x = 0
        }
     :: atomic { !(asks || next <= now) -> to_wakes = next }           /* publish */
        (!FENCES || to_wakes == EMPTY);
        if
        :: asks
        :: atomic { !asks -> asleep = true };
end_sleep: atomic { bell || next <= now -> bell = false; asleep = false }
        fi;
        to_wakes = 0                            /* retract */
     fi
  od
}

init
{
  byte i;
  atomic {
    for (i : 0 .. PRODUCERS - 1) { run producer(i) }
  }
}
