//! A HTTP/1.1 server over bare sockets: it can break every promise of the protocol, which a proper server cannot.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::World;

#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    /// Path and query as sent.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap()
    }

    /// The path, decoded.
    pub fn decoded_path(&self) -> String {
        percent_decode_str(self.path()).decode_utf8().unwrap().into_owned()
    }

    /// The query, decoded.
    pub fn query(&self) -> Vec<(String, String)> {
        let decode = |text: &str| percent_decode_str(text).decode_utf8().unwrap().into_owned();
        let Some((_, query)) = self.target.split_once('?') else { return Vec::new() };
        let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.map(|(key, value)| (decode(key), decode(value))).collect()
    }
}

#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Says another Content-Length than the body has.
    pub declared_length: Option<usize>,
    /// Closes the connection after so many bytes of the body.
    pub cut_at: Option<usize>,
    /// Sends pieces of this size with this pause before each.
    pub drip: Option<(usize, Duration)>,
    /// Waits before the first byte of the answer.
    pub delay: Duration,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Reply { status, ..Reply::default() }
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(key, _)| key != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }
}

pub type Handler = fn(&World, &Request) -> Reply;

/// A running server; it ends with this value.
pub struct Server {
    pub address: String,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub async fn serve(world: Arc<World>, handler: Handler) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(connection(socket, world.clone(), handler));
        }
    });
    Server { address, task }
}

async fn connection(mut socket: TcpStream, world: Arc<World>, handler: Handler) {
    let _ = socket.set_nodelay(true);
    let mut buffer = Vec::new();
    loop {
        let Some(request) = next_request(&mut socket, &mut buffer).await else { return };
        world.requests.fetch_add(1, Ordering::SeqCst);
        let in_flight = InFlight::new(&world);
        let turned_away = world.turned_away(&request);
        let reply = turned_away.unwrap_or_else(|| world.tampered(&request, handler(&world, &request)));
        if !send(&mut socket, &request, reply, in_flight).await {
            return;
        }
    }
}

/// A request until just before the last byte of its answer is sent: whoever has that may ask again at once, on another
/// connection, and must not be counted twice.
struct InFlight<'a>(&'a World);

impl<'a> InFlight<'a> {
    fn new(world: &'a World) -> Self {
        let now = world.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        world.most_in_flight.fetch_max(now, Ordering::SeqCst);
        InFlight(world)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn next_request(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Request> {
    let end = loop {
        if buffer.first() == Some(&0x16) {
            // The beginning of TLS, which proper servers answer in the same way.
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
            return None;
        }
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
    buffer.drain(..end + 4);
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers =
        lines.filter_map(|line| line.split_once(':')).map(|(key, value)| (key.to_lowercase(), value.trim().to_owned()));
    let mut request = Request { method, target, headers: headers.collect(), body: Vec::new() };
    let length = request.header("content-length").map_or(0, |text| text.parse().unwrap());
    while buffer.len() < length {
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    request.body = buffer.drain(..length).collect();
    Some(request)
}

/// False when the connection is to end.
async fn send(socket: &mut TcpStream, request: &Request, reply: Reply, in_flight: InFlight<'_>) -> bool {
    tokio::time::sleep(reply.delay).await;
    let mut head = format!("HTTP/1.1 {} X\r\n", reply.status);
    for (key, value) in &reply.headers {
        head += &format!("{key}: {value}\r\n");
    }
    head += &format!("content-length: {}\r\n\r\n", reply.declared_length.unwrap_or(reply.body.len()));
    let whole = reply.cut_at.unwrap_or(reply.body.len()).min(reply.body.len());
    let is_all = request.method == "HEAD" || whole == 0;
    let in_flight = (!is_all).then_some(in_flight);
    if socket.write_all(head.as_bytes()).await.is_err() {
        return false;
    }
    if request.method == "HEAD" {
        return true;
    }
    let (piece, pause) = reply.drip.unwrap_or((usize::MAX, Duration::ZERO));
    let (most, last) = reply.body[..whole].split_at(whole.saturating_sub(1));
    for piece in most.chunks(piece.min(whole.max(1))) {
        tokio::time::sleep(pause).await;
        if socket.write_all(piece).await.is_err() {
            return false;
        }
    }
    drop(in_flight);
    if socket.write_all(last).await.is_err() {
        return false;
    }
    reply.cut_at.is_none() && reply.declared_length.is_none()
}
