//! On which engine the timers run: `PEERS_ENGINE` in the environment says it.
//!
//! | | inside of a runtime of tokio's | elsewhere |
//! |---|---|---|
//! | `threads` | the process's engine, with threads of its own | the same |
//! | `tokio` | one that the runtime serves | one that a runtime serves, which is there for it |
//! | `paused` | as `tokio` (`ci/peers.sh` pauses the runtimes) | one of `tickless::test` |

use std::env;
use std::future::Future;
use std::sync::LazyLock;

use tickless::test::Paused;
use tickless::Engine;
use tokio::runtime::{Builder, Runtime};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Threads,
    Tokio,
    Paused,
}

static KIND: LazyLock<Kind> = LazyLock::new(|| match env::var("PEERS_ENGINE").as_deref() {
    Ok("threads") | Err(_) => Kind::Threads,
    Ok("tokio") => Kind::Tokio,
    Ok("paused") => Kind::Paused,
    Ok(other) => panic!("there is no engine {other}"),
});

static ELSEWHERE: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
});

static PAUSED: LazyLock<Paused> = LazyLock::new(Paused::new);

/// The engine for code of tokio's, which is inside of a runtime.
#[track_caller]
pub(crate) fn of_runtime() -> Engine {
    if *KIND == Kind::Threads {
        return Engine::global().clone();
    }
    // The caller is to be blamed for a runtime without timers, as with tokio's own.
    match Engine::of_runtime() {
        Ok(engine) => engine,
        Err(error) => panic!("{error}"),
    }
}

/// The engine for code that knows of no runtime.
pub(crate) fn elsewhere() -> Engine {
    match *KIND {
        Kind::Threads => Engine::global().clone(),
        Kind::Tokio => {
            let _entered = ELSEWHERE.enter();
            of_runtime()
        }
        Kind::Paused => PAUSED.engine().clone(),
    }
}

/// Runs a future to its end, where its timers end.
pub fn block_on<F: Future>(future: F) -> F::Output {
    match *KIND {
        Kind::Threads => futures_lite::future::block_on(future),
        Kind::Tokio => ELSEWHERE.block_on(future),
        Kind::Paused => PAUSED.block_on(future),
    }
}
