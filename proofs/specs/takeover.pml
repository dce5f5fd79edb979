/* Takeover.tla once more, in another language and for another checker.
 * -DHEAVY=0: the taker's fence does not empty the holder's store buffer: a payload may run twice.
 * -DCALLS=0: a reaper does not call the watcher: what is behind a stuck payload may stay for ever.
 * spin -a takeover.pml && gcc -O2 -o pan pan.c && ./pan -a -f -N others
 */
#ifndef HEAVY
#define HEAVY 1
#endif
#ifndef CALLS
#define CALLS 1
#endif
#ifndef LAST
#define LAST 3
#endif
#define NONE 0
#define OPEN 100
#define CLOSED 99
#define NOWHERE 255

byte stuck;                     /* the payload that may run for ever, or NONE */
byte runs[LAST + 1];
bool ended[LAST + 1];
byte word = CLOSED, to_word;    /* memory, and the holder's store buffer */
byte taken = NOWHERE;           /* how many the holder keeps */
bool wanted, locked, token;
mtype = { uncalled, shortly };
mtype looks = uncalled;      /* when the watcher looks: only when called, or soon */

#define OVER(x) (ended[x] || stuck == x)

ltl others { <> (OVER(1) && OVER(2) && OVER(LAST)) }

active proctype buffer()
{
end:
  do
  :: atomic { to_word -> word = to_word; to_word = NONE }
  od
}

active proctype holder()
{
  byte mine;
  if
  :: stuck = NONE
  :: stuck = 1
  :: stuck = 2
  :: stuck = LAST
  fi;
  to_word = OPEN;                               /* InHand::open, Watch::begun */
  (!to_word);
  if
  :: CALLS && looks == uncalled -> token = true
  :: else
  fi;
  do
  :: mine < LAST ->                             /* Line::claim, with a light fence */
     atomic { !to_word -> mine++; to_word = OPEN + mine }
     if
     :: wanted ->
        atomic { !locked ->
          if
          :: taken < mine -> mine--; goto close
          :: else
          fi
        }
     :: else
     fi;
     atomic { runs[mine]++; assert(runs[mine] == 1) }
     if
     :: mine != stuck
     :: mine == stuck -> 
end_stuck: false
     :: mine == stuck
     fi;
     ended[mine] = true
  :: else -> break
  od;
close:
  atomic { !to_word -> to_word = CLOSED }
}

active proctype watcher()
{
  byte seen = NOWHERE, x;
  do
  :: atomic { word == CLOSED -> seen = NOWHERE };
     looks = uncalled;                           /* publish, fence, look once more */
     if
     :: word == CLOSED ->
end_sleep: atomic { token -> token = false }
     :: else
     fi
  :: atomic { word != CLOSED && word != seen -> seen = word };
     looks = shortly
  :: word == seen && seen != NOWHERE ->         /* Line::take_over */
     locked = true;
     wanted = true;
     atomic {                                   /* the heavy fence */
       if
       :: HEAVY && to_word -> word = to_word; to_word = NONE
       :: else
       fi
     };
     if
     :: word == seen -> atomic { taken = seen - OPEN; x = taken + 1 }; break
     :: else -> wanted = false; locked = false
     fi
  od;
  locked = false;
  do
  :: x <= LAST -> atomic { runs[x]++; assert(runs[x] == 1) } ended[x] = true; x++
  :: else -> break
  od
}
