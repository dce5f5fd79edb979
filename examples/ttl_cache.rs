//! A cache whose entries live for a time of their own, and sessions that live as long as they are
//! used.
//!
//! A [`TtlMap`] needs no second map and no number for each value: the timer of an entry has the
//! value, and an entry that is replaced or removed takes its timer along.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tickless::{Engine, ManualClock, When};
use tickless_keyed::TtlMap;

/// A session, which all its requests share.
struct Session {
    requests: AtomicU32,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let minute = Duration::from_secs(60);
    // Its time moves by hand, so that this takes none. A program says `TtlMap::new(..)?`.
    let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;

    // Nobody minds an entry of a cache that lives a tenth longer, and it costs the engine less.
    let cache = TtlMap::<&str, str>::with_engine(&engine, |_, _| ());
    let about = |ttl: Duration| When::after(ttl).slack(ttl / 10);
    cache.insert("user", "Ada", about(10 * minute))?;
    cache.insert("token", "1f3a", about(minute))?;
    engine.advance(minute / 2)?;
    // Replaced: the old value's minute does not end the new one.
    let replaced = cache.insert("token", "77b0", about(minute))?;
    assert_eq!((replaced.as_deref(), engine.len()), (Some("1f3a"), 2));
    engine.advance(minute - Duration::from_secs(1))?;
    assert_eq!(cache.get("token").as_deref(), Some("77b0"));
    engine.advance(Duration::from_secs(8))?;
    assert_eq!((cache.get("token"), cache.get("user").as_deref()), (None, Some("Ada")));

    // A session ends five minutes after its last request, and is then written down.
    let (sender, ended) = mpsc::channel();
    let on_expiry = move |user: &&'static str, session: Arc<Session>| {
        let _ = sender.send((*user, session.requests.load(Ordering::Relaxed)));
    };
    let sessions = TtlMap::with_engine(&engine, on_expiry);
    sessions.insert("ada", Session { requests: AtomicU32::new(0) }, 5 * minute)?;
    for _ in 0..10 {
        engine.advance(4 * minute)?;
        let session = sessions.get_and_extend("ada", 5 * minute)?;
        session.requests.fetch_add(1, Ordering::Relaxed);
    }
    assert!(ended.try_recv().is_err(), "she is at work");
    engine.advance(5 * minute)?;
    assert_eq!(ended.recv()?, ("ada", 10));
    assert!(sessions.is_empty() && cache.is_empty());
    println!("the token has expired, and a session has ended after its last request");
    Ok(())
}
