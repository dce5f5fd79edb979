//! The engine that a process shares. Not for ThreadSanitizer: the thread that waits while another
//! thread is the first does so inside the standard library.

use std::sync::Mutex;
use std::time::Duration;

use support::threads::on_threads;
use tickless::Engine;

#[test]
fn threads_that_are_the_first_at_once_share_one_engine() {
    let places = Mutex::new(Vec::new());
    on_threads::<4>(|| {
        let engine = Engine::try_global().unwrap();
        pollster::block_on(tickless::sleep(Duration::from_micros(1)));
        places.lock().unwrap().push(std::ptr::from_ref(engine).addr());
    });
    let places = places.into_inner().unwrap();
    assert!(places.len() == 4 && places.iter().all(|place| *place == places[0]));
}
