//! A server of hyper's whose service has a layer of tower's: each request is answered in time,
//! whatever the service does.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode, client, server};
use hyper_util::rt::TokioIo;
use tickless::Engine;
use tickless::future::Elapsed;
use tickless::future::tower::TimeoutLayer;
use tokio::net::{TcpListener, TcpStream};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// The status of what the service came to.
fn respond(result: Result<&'static str, BoxError>) -> Result<Response<Full<Bytes>>, Infallible> {
    let elapsed = |error: BoxError| error.downcast_ref().map(Elapsed::cause);
    let (status, body) = match result.map_err(elapsed) {
        Ok(body) => (StatusCode::OK, body),
        Err(Some(None)) => (StatusCode::GATEWAY_TIMEOUT, ""),
        Err(Some(Some(_))) => (StatusCode::SERVICE_UNAVAILABLE, ""),
        Err(None) => (StatusCode::BAD_GATEWAY, ""),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    *response.status_mut() = status;
    Ok(response)
}

#[test]
fn a_server_answers_in_time_whatever_its_service_does() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        let engine = Engine::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let work = || {
            service_fn(async |request: Request<Incoming>| match request.uri().path() {
                "/quick" => Ok("hello"),
                "/broken" => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
                _ => pending().await,
            })
        };
        let [brief, long] = [MS * 20, HOUR].map(|limit| {
            ServiceBuilder::new().layer(TimeoutLayer::new(&engine, limit)).service(work())
        });
        let serving = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let service = hyper::service::service_fn(|request: Request<Incoming>| {
                let service = if request.uri().path() == "/refused" { &long } else { &brief };
                let response = service.clone().oneshot(request);
                async { respond(response.await) }
            });
            let server = server::conn::http1::Builder::new();
            server.serve_connection(TokioIo::new(stream), service).await
        });
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) =
            client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut ask = async |path: &str| {
            let request = Request::builder().uri(path).body(Empty::<Bytes>::new()).unwrap();
            let response = sender.send_request(request).await.unwrap();
            let status = response.status().as_u16();
            (status, response.into_body().collect().await.unwrap().to_bytes())
        };
        let bare = |status: u16| (status, Bytes::new());
        assert_eq!(ask("/quick").await, (200, Bytes::from_static(b"hello")));
        assert_eq!(ask("/slow").await, bare(504));
        assert_eq!(ask("/broken").await, bare(502));
        // (A limit that is polled only when it has passed needs no timer.)
        assert!(engine.stats().fired <= 1);
        while !engine.is_empty() {
            // A reaper is handing it over.
            tokio::task::yield_now().await;
        }
        engine.stop().unwrap();
        assert_eq!(ask("/quick").await, (200, Bytes::from_static(b"hello")));
        assert_eq!(ask("/refused").await, bare(503));
        drop(sender);
        connection.await.unwrap().unwrap();
        serving.await.unwrap().unwrap();
    });
}
