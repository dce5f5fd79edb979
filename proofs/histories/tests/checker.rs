//! The checker against all permutations, and what the models say of histories worked out by hand.

use histories::checker::is_linearizable;
use histories::history::{Model, Operation};
use histories::random::Random;
use histories::timer::{Call, Refusal, Seen, Timer};

fn operation(begin: u64, end: u64, call: Call) -> Operation<Call> {
    Operation { id: 0, thread: 0, begin, end, from_ns: begin, to_ns: end, call }
}

/// Tries every order, with no memory and no cleverness.
fn by_permutations(left: &[Operation<Call>], state: &<Timer as Model>::State) -> bool {
    left.is_empty()
        || (0..left.len()).any(|i| {
            let mut rest = left.to_vec();
            let next = rest.remove(i);
            let is_first = rest.iter().all(|other| next.begin <= other.end);
            let state = Timer::step(state, &next);
            is_first && state.is_some_and(|state| by_permutations(&rest, &state))
        })
}

fn any_call(random: &mut Random) -> Call {
    match random.below(12) {
        0 => Call::Reset(random.below(10), Ok(())),
        1 => Call::Reset(random.below(10), Err(Refusal::TooLate)),
        2 => Call::Reset(random.below(10), Err(Refusal::Stopped)),
        3 => Call::Cancel(true),
        4 => Call::Cancel(false),
        5 => Call::State(Seen::Pending),
        6 => Call::State(Seen::Fired),
        7 => Call::State(Seen::Stopped),
        8 | 9 => Call::Fire,
        10 => Call::Close,
        _ => Call::Return { is_returned: random.once_in(2), gave_up: false },
    }
}

#[test]
fn the_search_finds_an_order_where_some_permutation_is_one() {
    let random = &mut Random::new(1);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut history = vec![operation(0, 1, Call::Schedule(random.below(10), Ok(())))];
        for _ in 0..random.below(6) {
            let begin = random.below(30);
            history.push(operation(begin, begin + random.below(15), any_call(random)));
        }
        history.sort_by_key(|operation| operation.begin);
        let expected = by_permutations(&history, &Default::default());
        assert_eq!(is_linearizable::<Timer>(&history), expected, "{history:#?}");
        accepted += u32::from(expected);
    }
    assert!((1_000..19_000).contains(&accepted), "both answers occur: {accepted}");
}

#[test]
fn operations_on_one_timer_in_turn_have_one_order() {
    let schedule = operation(0, 10, Call::Schedule(50, Ok(())));
    let is_accepted = |rest: &[Operation<Call>]| {
        is_linearizable::<Timer>(&[std::slice::from_ref(&schedule), rest].concat())
    };
    let (fire, early) = (operation(50, 60, Call::Fire), operation(40, 49, Call::Fire));
    assert!(is_accepted(std::slice::from_ref(&fire)));
    assert!(!is_accepted(&[early]), "never early");
    let cancel = |begin, end, is_so| operation(begin, end, Call::Cancel(is_so));
    assert!(is_accepted(&[fire.clone(), cancel(55, 70, false)]));
    assert!(!is_accepted(&[fire.clone(), cancel(55, 70, true)]), "one wins");
    assert!(!is_accepted(&[cancel(20, 49, false)]), "too late before it is due");
    let late = operation(61, 70, Call::State(Seen::Pending));
    assert!(!is_accepted(&[fire.clone(), late]), "it has fired");
    let moved = operation(20, 30, Call::Reset(100, Ok(())));
    assert!(!is_accepted(&[moved.clone(), fire]), "at its old time");
    assert!(is_accepted(&[moved, operation(110, 130, Call::Fire)]));
}
