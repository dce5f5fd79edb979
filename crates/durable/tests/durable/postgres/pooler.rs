//! A pooler that passes the transactions of its clients to whichever of its sessions is free, as
//! others do that pool transactions.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;

use tickless_durable::Cluster;
use tickless_durable::cluster::Firing;

use super::server::Place;

type Free = Arc<Mutex<Vec<UnixStream>>>;

/// Reads a message with its type, whole; `None`: the other end is gone.
fn read(from: &mut impl Read) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    from.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    let mut message = head.to_vec();
    message.resize(length + 1, 0);
    from.read_exact(&mut message[5..]).ok()?;
    Some((head[0], message))
}

/// A session of the server's, which is ready.
fn session(place: &Place, startup: &[u8]) -> UnixStream {
    let mut server = UnixStream::connect(place.socket()).unwrap();
    server.write_all(startup).unwrap();
    while read(&mut server).unwrap().0 != b'Z' {}
    server
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[kind][..], &length, body].concat()
}

/// Passes a reply on. Whether the session is in no transaction then.
fn is_idle_after(server: &mut UnixStream, client: &mut TcpStream) -> Option<bool> {
    loop {
        let (told, reply) = read(server)?;
        client.write_all(&reply).ok()?;
        if told == b'Z' {
            return Some(reply[5] == b'I');
        }
    }
}

/// Serves one client. The last session that was given back is the next one.
fn serve(mut client: TcpStream, place: &Place, free: &Free) -> Option<()> {
    let mut length = [0; 4];
    client.read_exact(&mut length).ok()?;
    let mut startup = length.to_vec();
    startup.resize(u32::from_be_bytes(length) as usize, 0);
    client.read_exact(&mut startup[4..]).ok()?;
    if startup[4..8] == [4, 210, 22, 47] {
        // Whether there is TLS.
        client.write_all(b"N").ok()?;
        return serve(client, place, free);
    }
    let ready = [message(b'R', &[0; 4]), message(b'K', &[7; 8]), message(b'Z', b"I")].concat();
    client.write_all(&ready).ok()?;
    loop {
        let (mut kind, mut asked) = read(&mut client)?;
        let kept = free.lock().unwrap().pop();
        let mut server = kept.unwrap_or_else(|| session(place, &startup));
        loop {
            server.write_all(&asked).ok()?;
            // A query, or the end of some messages: a reply comes, and then the server is ready.
            if (kind == b'Q' || kind == b'S') && is_idle_after(&mut server, &mut client)? {
                break;
            }
            (kind, asked) = read(&mut client)?;
        }
        free.lock().unwrap().push(server);
    }
}

#[test]
fn a_pooler_of_transactions_is_found_out_and_refused() {
    let Some(place) = Place::new() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (theirs, free) = (place.clone(), Free::default());
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let (place, free) = (theirs.clone(), free.clone());
            thread::spawn(move || serve(client, &place, &free));
        }
    });
    let url = format!("host=127.0.0.1 port={port} {}", super::server::LOGIN);
    let handler = |_: &Firing<'_, String>| Ok::<(), String>(());
    let start = |url: &str| -> Result<Cluster<String>, _> {
        Cluster::builder(url).schema(&place.schema).shards(1).start(handler)
    };
    let error = start(&url).expect_err("settings do not last there");
    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(cause.contains("pools transactions"), "{error}: {cause}");
    start(&place.url).unwrap().stop().unwrap();
}
