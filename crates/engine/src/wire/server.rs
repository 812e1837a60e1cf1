//! Listens for peers, admits those that know the token, and serves them.

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::error::{Error, ErrorKind, Result};
use crate::metrics::{Metrics, PeerMetrics, UnsignedGauge};
use crate::wire::answer_memory::AnswerMemory;
use crate::wire::handshake::{Agreement, admit, refuse};
use crate::wire::limits::ServerLimits;
use crate::wire::read::ended;
use crate::wire::renewed::InForce;
use crate::wire::security::ServerSecurity;
use crate::wire::service::PeerService;
use crate::wire::serving::{PeerServerState, serve};
use crate::wire::strangers::{Stranger, Strangers};
use crate::wire::token::Token;
use crate::wire::transport::{Transport, accept};

/// How long a listener without descriptors waits before it tries again.
const RETRY: Duration = Duration::from_millis(50);

/// A running server; dropping it ends all its connections.
pub struct PeerServer {
    address: SocketAddr,
    tasks: TaskTracker,
    closing: CancellationToken,
    _closes_when_dropped: DropGuard,
}

struct Acceptor {
    listener: TcpListener,
    security: ServerSecurity,
    shared: PeerServerState,
    connections: Arc<Semaphore>,
    strangers: Arc<Strangers>,
}

impl PeerServer {
    /// Listens on `listen` (port 0: any free one, see `address`). `Busy` when somebody else does.
    pub async fn start(
        listen: SocketAddr,
        security: ServerSecurity,
        service: Arc<dyn PeerService>,
        metrics: &Metrics,
    ) -> Result<PeerServer> {
        Self::start_with(listen, security, service, metrics, ServerLimits::default()).await
    }

    /// The same with other bounds.
    pub async fn start_with(
        listen: SocketAddr,
        security: ServerSecurity,
        service: Arc<dyn PeerService>,
        metrics: &Metrics,
        limits: ServerLimits,
    ) -> Result<PeerServer> {
        let listener = TcpListener::bind(listen).await.map_err(|error| cannot_listen(listen, error))?;
        let address = listener.local_addr().map_err(|error| cannot_listen(listen, error))?;
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        let connections = Arc::new(Semaphore::new(limits.connections));
        let strangers = Strangers::new(limits.handshakes, limits.handshakes_of_address);
        let shared = PeerServerState {
            service,
            memory: Arc::new(AnswerMemory::new(limits.memory.clone())),
            limits,
            metrics: metrics.peer.clone(),
            tasks: tasks.clone(),
            closing: closing.clone(),
        };
        let acceptor = Acceptor { listener, security, shared, connections, strangers };
        tasks.spawn(acceptor.run());
        Ok(PeerServer { address, tasks, _closes_when_dropped: closing.clone().drop_guard(), closing })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all connections; answers under way end early, with a temporary error at the client. Returns when no task of
    /// the server is left.
    pub async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Acceptor {
    async fn run(self) {
        // Given up for the next connection when there is no other descriptor: then a stranger can be closed for it.
        let mut spare = spare();
        let mut is_failing = false;
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = self.shared.closing.cancelled() => return,
            };
            match accepted {
                Ok((stream, from)) => {
                    is_failing = false;
                    spare = spare.or_else(self::spare);
                    self.take(stream, from);
                    // Those who are there have their turn, and may prove who they are, before the next one comes.
                    yield_now().await;
                }
                // The kernel says that there is no descriptor also where nobody wants one.
                Err(_) if !has_visitor(&self.listener) => sleep(RETRY).await,
                Err(error) => {
                    if !is_failing {
                        tracing::warn!("cannot accept a connection of a peer: {error}");
                    }
                    is_failing = true;
                    // Out of descriptors, most likely: trying again at once would burn a core.
                    if self.strangers.end_one() || spare.take().is_none() {
                        sleep(RETRY).await;
                        spare = spare.or_else(self::spare);
                    }
                }
            }
        }
    }

    /// Serves a connection. When there are too many, one that has proved nothing has to go, or this one.
    fn take(&self, stream: TcpStream, from: SocketAddr) {
        let stranger = self.strangers.arrive(from.ip());
        if self.connections.available_permits() == 0 && !stranger.end_another() {
            tracing::warn!("a connection of {from} is refused: there are too many");
            return;
        }
        let (security, shared, places) = (self.security.clone(), self.shared.clone(), self.connections.clone());
        self.shared.tasks.spawn(async move {
            let closing = shared.closing.clone();
            let outcome = tokio::select! {
                outcome = handle(stream, security, shared, stranger, places) => outcome,
                () = closing.cancelled() => Ok(()),
            };
            if let Err(error) = outcome {
                tracing::debug!("the connection of {from} ended: {error}");
            }
        });
    }
}

/// True while somebody waits to be let in.
fn has_visitor(listener: &TcpListener) -> bool {
    let mut waiting = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    poll(&mut waiting, PollTimeout::ZERO).is_ok_and(|count| count > 0)
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

async fn handle(
    stream: TcpStream,
    security: ServerSecurity,
    shared: PeerServerState,
    stranger: Stranger,
    places: Arc<Semaphore>,
) -> Result<()> {
    let opened = tokio::select! {
        opened = open(stream, security, &shared, places) => opened?,
        () = stranger.ended() => return Err(ended("to make room for others", None)),
    };
    drop(stranger);
    let (transport, agreement, _counted) = opened;
    serve(transport, agreement, shared).await
}

/// What a connection is once it has proved that it knows the token.
async fn open(
    stream: TcpStream,
    security: ServerSecurity,
    shared: &PeerServerState,
    places: Arc<Semaphore>,
) -> Result<(Transport, Agreement, Counted)> {
    let limits = &shared.limits;
    let opening = async {
        // It is free, or becomes free in a moment, when another one has gone for this one.
        let place = places.acquire_owned().await.map_err(|_| ended("early", None))?;
        let counted = Counted::new(&shared.metrics.served_connections, place);
        let tls = match &security.tls {
            Some(tls) => Some(tls.in_force().await.now),
            None => None,
        };
        let mut transport = accept(stream, tls).await?;
        let InForce { now, before } = security.token.in_force().await;
        let tokens: Vec<&Token> = std::iter::once(&*now).chain(before.as_deref()).collect();
        let outcome = admit(&mut transport, &tokens, limits.requests).await;
        Ok::<_, Error>((transport, outcome, counted))
    };
    let (transport, outcome, counted) =
        timeout(limits.handshake, opening).await.map_err(|_| ended("in a handshake that took too long", None))??;
    match outcome {
        Ok(agreement) => Ok((transport, agreement, counted)),
        Err(error) => {
            turn_away(transport, &error, &shared.metrics, limits).await;
            Err(error)
        }
    }
}

/// Tells a client why it is not admitted. One that guesses tokens waits for each answer, and takes one of few places.
async fn turn_away(mut transport: Transport, error: &Error, metrics: &PeerMetrics, limits: &ServerLimits) {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            metrics.refused_connections.inc();
            sleep(limits.refusal).await;
        }
        ErrorKind::Unsupported => {}
        _ => return,
    }
    let _ = timeout(limits.handshake, refuse(&mut transport, error)).await;
}

/// A connection in a gauge and in its bound, for as long as it lives.
struct Counted {
    gauge: UnsignedGauge,
    _place: OwnedSemaphorePermit,
}

impl Counted {
    fn new(gauge: &UnsignedGauge, place: OwnedSemaphorePermit) -> Self {
        gauge.inc();
        Counted { gauge: gauge.clone(), _place: place }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

fn cannot_listen(address: SocketAddr, error: std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::AddrInUse => ErrorKind::Busy,
        std::io::ErrorKind::AddrNotAvailable => ErrorKind::Config,
        std::io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        _ => ErrorKind::Unexpected,
    };
    Error::new(kind, format!("cannot listen for peers on {address}: {error}"))
        .with_hint("choose an address of this machine and a port that is free")
        .with_source(error)
}
