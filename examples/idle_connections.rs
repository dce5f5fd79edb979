//! A server that closes connections which fall silent: one sleep per connection, moved on by each
//! packet. `cargo run --release --example idle_connections`

use std::error::Error;
use std::io;
use std::time::{Duration, Instant};

use tickless::Engine;
use tickless::future::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const CLIENTS: u32 = 100;

/// How long a connection may be silent.
const SILENCE: Duration = Duration::from_millis(800);

/// A client's, between two packets.
const PAUSE: Duration = Duration::from_millis(20);

/// What a connection has seen when it ends.
struct Served {
    packets: u32,
    /// From the last packet until it was closed; `None`: the client closed it.
    silent_for: Option<Duration>,
}

/// Echoes until the client closes the connection or falls silent.
async fn serve(mut stream: TcpStream) -> io::Result<Served> {
    let mut packets = 0;
    let mut idle = tickless::sleep(SILENCE);
    let mut last = Instant::now();
    let mut packet = [0; 64];
    loop {
        tokio::select! {
            read = stream.read(&mut packet) => {
                let length = read.unwrap_or(0);
                if length == 0 {
                    return Ok(Served { packets, silent_for: None });
                }
                packets += 1;
                last = Instant::now();
                // Nothing but one atomic exchange: the timer is not filed anew for it.
                idle.reset(SILENCE);
                if stream.write_all(&packet[..length]).await.is_err() {
                    return Ok(Served { packets, silent_for: None });
                }
            }
            () = &mut idle => return Ok(Served { packets, silent_for: Some(last.elapsed()) }),
        }
    }
}

/// Says something now and then; in the end hangs up, or falls silent and waits to be hung up on.
async fn chat(server: std::net::SocketAddr, number: u32) -> io::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    let mut packet = [0; 4];
    for _ in 0..10 + number % 20 {
        // On a machine that is too busy for a packet in time, the server hangs up.
        if stream.write_all(b"ping").await.is_err() {
            return Ok(());
        }
        // Nobody waits for an answer that does not come.
        let answer = stream.read_exact(&mut packet).timeout(Duration::from_secs(60)).await?;
        if answer.is_err() {
            return Ok(());
        }
        tickless::sleep(PAUSE).await;
    }
    if number % 2 == 0 {
        return Ok(());
    }
    let rest = stream.read(&mut packet).timeout(Duration::from_secs(60)).await?.unwrap_or(0);
    if rest == 0 { Ok(()) } else { Err(io::Error::other("expected the end")) }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let clients: Vec<_> = (0..CLIENTS).map(|n| tokio::spawn(chat(address, n))).collect();
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(tokio::spawn(serve(listener.accept().await?.0)));
    }
    let (mut packets, mut hung_up, mut closed) = (0, 0, Vec::new());
    for connection in connections {
        let served = connection.await??;
        packets += served.packets;
        match served.silent_for {
            None => hung_up += 1,
            Some(silence) => closed.push(silence),
        }
    }
    for client in clients {
        client.await??;
    }
    closed.sort_unstable();
    // A task of this runtime has served the timers, and no thread of an engine.
    let stats = Engine::of_runtime()?.stats();
    println!("{packets} packets, {CLIENTS} peers: {hung_up} hung up, {} were closed", closed.len());
    println!("closed after a silence of {:?} to {:?}", closed[0], closed[closed.len() - 1]);
    println!("{} timers scheduled, {} fired", stats.scheduled, stats.fired);
    assert!(closed.len() >= CLIENTS as usize / 2, "who falls silent is hung up on");
    assert_eq!(hung_up + closed.len(), CLIENTS as usize);
    assert!(closed[0] >= SILENCE, "nobody is closed early");
    Ok(())
}
