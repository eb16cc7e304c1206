//! The connection: one client for a process, cheap to clone.
//!
//! Every request goes through [`Bus::exchange`], which is bounded in time, sends nothing while
//! there is no connection, and tells a denied request from a lost one.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::{Client, ReconnectToServer, ServerAddr};
use cronstream_schemas::subject::Prefix;
use tokio::sync::{broadcast, watch};

use crate::error::Error;
use crate::event::{Action, BusEvent};
use crate::names::Names;
use crate::ring::{self, Ring};

/// How long a request may take.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a silent connection is checked; two unanswered checks end it.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// How long one server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How many events a slow listener may lag behind before it misses some.
const EVENTS_KEPT: usize = 256;
/// So many requests without an answer in a row make the bus try another server.
const TIMEOUTS_BEFORE_MOVE: u32 = 3;
/// So long without any answer, while the server says "not available", makes the bus try another
/// server; longer than an election (4 to 9 s).
const UNAVAILABLE_BEFORE_MOVE: Duration = Duration::from_secs(12);
/// Requests that time out together count once: the next one counts after this long.
const TIMEOUTS_APART: Duration = Duration::from_secs(1);
/// How long the bus stays with a server at least.
const MOVES_APART: Duration = Duration::from_secs(10);

/// How to reach the broker, and as whom.
#[derive(Debug, Clone, Default)]
pub struct ConnectOptions {
    /// Server addresses, `nats://[user:password@]host:port`; one is enough, the others of a cluster
    /// are learnt.
    pub servers: Vec<String>,
    /// A credentials file (`.creds`).
    pub creds: Option<PathBuf>,
    /// A file with an nkey seed.
    pub nkey_seed_file: Option<PathBuf>,
    /// A file with the certificate authority that signed the servers.
    pub tls_ca: Option<PathBuf>,
    /// The name the server shows for this connection.
    pub name: String,
    /// The prefix of reply subjects, `_INBOX` when absent.
    pub inbox_prefix: Option<String>,
    /// The installation's prefix.
    pub prefix: Prefix,
    /// Whether `connect` returns before a server is reached, and goes on trying.
    pub retry_initial: bool,
}

/// A connection to the broker.
#[derive(Debug, Clone)]
pub struct Bus {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) client: Client,
    pub(crate) names: Names,
    pub(crate) inbox_prefix: String,
    shared: Arc<Shared>,
}

/// What the event callback and the requests both see.
#[derive(Debug)]
struct Shared {
    events: broadcast::Sender<BusEvent>,
    connects: watch::Sender<u64>,
    inbox_denied: AtomicBool,
    inbox_prefix: String,
    health: Mutex<Health>,
}

/// Requests without an answer since the last one that had an answer.
#[derive(Debug, Default)]
struct Health {
    reads: Silence,
    /// Counted apart: a server that has lost the others goes on to answer reads for some ten seconds.
    writes: Silence,
    unavailable_since: Option<Instant>,
    moved: Option<Instant>,
}

/// Requests of one kind without an answer.
#[derive(Debug, Default)]
struct Silence {
    timeouts: u32,
    first: Option<Instant>,
    last: Option<Instant>,
}

/// How a request ended, as far as the health of the connection is concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sign {
    Answered(Kind),
    TimedOut(Kind),
    Unavailable,
    /// Refused beside an earlier write that is not stored yet. A leader that has lost the others says so for as long
    /// as it takes itself for the leader.
    InFlight,
}

/// What a request was for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// A question to JetStream's API, or a write that its stream's leader refused by itself.
    Read,
    /// A message or batch that was to be stored.
    Write,
}

impl Silence {
    /// Counts one more; says whether it has lasted too long.
    fn goes_on(&mut self, now: Instant) -> bool {
        if self.last.is_none_or(|last| now.duration_since(last) >= TIMEOUTS_APART) {
            self.timeouts += 1;
            self.first.get_or_insert(now);
            self.last = Some(now);
        }
        self.timeouts >= TIMEOUTS_BEFORE_MOVE
    }
}

impl Health {
    /// Notes how a request ended; says why to leave this server, if so.
    fn note(&mut self, sign: Sign, now: Instant) -> Option<&'static str> {
        let reason = match sign {
            Sign::Answered(Kind::Write) => {
                self.forget();
                None
            }
            Sign::Answered(Kind::Read) => {
                (self.reads, self.unavailable_since) = (Silence::default(), None);
                None
            }
            Sign::TimedOut(Kind::Read) => self.reads.goes_on(now).then_some("requests time out"),
            Sign::TimedOut(Kind::Write) => self.writes.goes_on(now).then_some("nothing is stored"),
            Sign::InFlight => {
                let first = *self.writes.first.get_or_insert(now);
                (now.duration_since(first) >= UNAVAILABLE_BEFORE_MOVE)
                    .then_some("nothing is stored")
            }
            Sign::Unavailable => {
                let since = *self.unavailable_since.get_or_insert(now);
                // It began with the first write that was lost.
                let since = self.writes.first.map_or(since, |first| first.min(since));
                (now.duration_since(since) >= UNAVAILABLE_BEFORE_MOVE)
                    .then_some("jetstream is not available")
            }
        };
        let settling = self.moved.is_some_and(|moved| now.duration_since(moved) < MOVES_APART);
        if reason.is_none() || settling {
            return None;
        }
        self.forget();
        self.moved = Some(now);
        reason
    }

    /// Begins to count anew.
    fn forget(&mut self) {
        *self = Self { moved: self.moved, ..Self::default() };
    }
}

impl Shared {
    fn tell(&self, event: BusEvent) {
        event.trace();
        match &event {
            BusEvent::Connected => {
                self.inbox_denied.store(false, Ordering::Relaxed);
                self.health.lock().unwrap_or_else(PoisonError::into_inner).forget();
                self.connects.send_modify(|count| *count += 1);
            }
            BusEvent::Denied { action: Action::Subscribe, subject }
                if subject.starts_with(&self.inbox_prefix) =>
            {
                self.inbox_denied.store(true, Ordering::Relaxed);
            }
            BusEvent::Disconnected
            | BusEvent::LameDuck
            | BusEvent::Closed
            | BusEvent::SlowConsumer
            | BusEvent::Denied { .. }
            | BusEvent::Moved { .. }
            | BusEvent::Error(_) => {}
        }
        // Nobody listening is fine.
        self.events.send(event).ok();
    }
}

impl Bus {
    /// Connects, trying each server once, unless `retry_initial` asks to go on in the background.
    ///
    /// # Errors
    /// When no server accepts, or a file cannot be read.
    pub async fn connect(options: ConnectOptions) -> Result<Self, Error> {
        let servers = addresses(&options.servers)?;
        let inbox_prefix = options.inbox_prefix.clone().unwrap_or_else(|| "_INBOX".into());
        let shared = Arc::new(Shared {
            events: broadcast::channel(EVENTS_KEPT).0,
            connects: watch::channel(0).0,
            inbox_denied: AtomicBool::new(false),
            inbox_prefix: inbox_prefix.clone(),
            health: Mutex::default(),
        });
        let ring = Arc::new(Ring::default());
        let mut attempt = 1;
        let client = loop {
            let settings = client_options(&options, &inbox_prefix, &shared, &ring).await?;
            match settings.connect(&servers[..]).await {
                Ok(client) => break client,
                Err(_) if attempt < servers.len() => attempt += 1,
                Err(source) => {
                    let servers: Vec<_> =
                        servers.iter().map(|a| format!("{}:{}", a.host(), a.port())).collect();
                    return Err(Error::Connect { servers: servers.join(", "), source });
                }
            }
        };
        let names = Names::new(&options.prefix);
        Ok(Self { inner: Arc::new(Inner { client, names, inbox_prefix, shared }) })
    }

    /// The names of this installation's streams and bucket.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.inner.names
    }

    /// The version of the server this connection is on; empty before the first connection.
    #[must_use]
    pub fn server_version(&self) -> String {
        self.inner.client.try_server_info().map(|info| info.version).unwrap_or_default()
    }

    /// The name of the server this connection is on; empty before the first connection.
    #[must_use]
    pub fn server_name(&self) -> String {
        self.inner.client.try_server_info().map(|info| info.server_name).unwrap_or_default()
    }

    /// The largest message the server takes.
    #[must_use]
    pub fn max_payload(&self) -> usize {
        self.inner.client.max_payload()
    }

    /// Whether there is a connection now.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.inner.client.connection_state() == State::Connected
    }

    /// Events of the connection from now on. Every event is traced whether or not anybody listens.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<BusEvent> {
        self.inner.shared.events.subscribe()
    }

    /// A number that rises with each connection made.
    #[must_use]
    pub fn connects(&self) -> watch::Receiver<u64> {
        self.inner.shared.connects.subscribe()
    }

    /// Leaves the present server for another one of the list; with one server alone, connects to it
    /// again.
    pub async fn force_reconnect(&self) {
        self.move_on("asked to").await;
    }

    /// Waits until what was published has left this process, at most the request timeout.
    ///
    /// # Errors
    /// When that takes longer.
    pub async fn flush(&self) -> Result<(), Error> {
        let late = || Error::TimedOut { what: "flush".into() };
        let flushed = tokio::time::timeout(REQUEST_TIMEOUT, self.inner.client.flush()).await;
        flushed.map_err(|_| late())?.map_err(|_| late())
    }

    async fn move_on(&self, reason: &'static str) {
        // Without a connection the client is looking for another server already.
        if !self.is_connected() {
            return;
        }
        self.inner.shared.tell(BusEvent::Moved { reason });
        // Fails only when the client is closed, and then there is nothing to leave.
        self.inner.client.force_reconnect().await.ok();
    }

    /// Notes how a request ended, and leaves the server when it seems cut off.
    pub(crate) async fn note(&self, sign: Sign) {
        let reason = {
            let mut health =
                self.inner.shared.health.lock().unwrap_or_else(PoisonError::into_inner);
            health.note(sign, Instant::now())
        };
        if let Some(reason) = reason {
            self.move_on(reason).await;
        }
    }

    pub(crate) fn inbox_is_denied(&self) -> bool {
        self.inner.shared.inbox_denied.load(Ordering::Relaxed)
    }
}

fn addresses(servers: &[String]) -> Result<Vec<ServerAddr>, Error> {
    let each = servers.iter().flat_map(|list| list.split(',')).map(str::trim);
    let parsed: Result<Vec<ServerAddr>, Error> =
        each.map(|one| one.parse().map_err(|_| Error::Address(without_password(one)))).collect();
    let parsed = parsed?;
    if parsed.is_empty() { Err(Error::Address(String::new())) } else { Ok(parsed) }
}

/// An address as it may be printed.
fn without_password(address: &str) -> String {
    match address.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => address.to_owned(),
    }
}

/// What an address says before its `@`: the client does not look there.
#[derive(Debug, PartialEq, Eq)]
enum Login {
    Password { user: String, password: String },
    Token(String),
}

/// The login of the first address that has one; it serves for all of them.
fn login(servers: &[ServerAddr]) -> Option<Login> {
    let server = servers.iter().find(|server| server.has_user_pass())?;
    let user = percent_decoded(server.username()?);
    Some(match server.password() {
        Some(password) => Login::Password { user, password: percent_decoded(password) },
        None => Login::Token(user),
    })
}

/// A part of an address without its `%` escapes; what is no escape stays as it is.
fn percent_decoded(text: &str) -> String {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let escape = (*byte == b'%').then(|| (digit(bytes.get(at + 1)), digit(bytes.get(at + 2))));
        match escape {
            Some((Some(high), Some(low))) => {
                out.push(u8::try_from(high * 16 + low).expect("two hexadecimal digits"));
                at += 3;
            }
            Some(_) | None => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

async fn client_options(
    options: &ConnectOptions,
    inbox_prefix: &str,
    shared: &Arc<Shared>,
    ring: &Arc<Ring>,
) -> Result<async_nats::ConnectOptions, Error> {
    let (shared, ring) = (Arc::clone(shared), Arc::clone(ring));
    let mut settings = async_nats::ConnectOptions::new()
        .name(&options.name)
        .custom_inbox_prefix(inbox_prefix)
        .connection_timeout(CONNECT_TIMEOUT)
        .ping_interval(PING_INTERVAL)
        .request_timeout(Some(REQUEST_TIMEOUT))
        .reconnect_delay_callback(ring::reconnect_delay)
        .reconnect_to_server_callback(move |pool, _| {
            let pool: Vec<ServerAddr> = pool.into_iter().map(|server| server.addr).collect();
            let next = ring.next(&pool);
            async move { next.map(|addr| ReconnectToServer { addr, delay: None }) }
        })
        .event_callback(move |event| {
            let shared = Arc::clone(&shared);
            async move {
                if let Some(event) = BusEvent::from_client(&event) {
                    shared.tell(event);
                }
            }
        });
    match login(&addresses(&options.servers)?) {
        Some(Login::Password { user, password }) => {
            settings = settings.user_and_password(user, password);
        }
        Some(Login::Token(token)) => settings = settings.token(token),
        None => {}
    }
    if options.retry_initial {
        settings = settings.retry_on_initial_connect();
    }
    if let Some(path) = &options.tls_ca {
        settings = settings.add_root_certificates(path.clone()).require_tls(true);
    }
    if let Some(path) = &options.creds {
        settings = settings
            .credentials_file(path)
            .await
            .map_err(|source| Error::File { path: path.clone(), source })?;
    }
    if let Some(path) = &options.nkey_seed_file {
        let seed = tokio::fs::read_to_string(path)
            .await
            .map_err(|source| Error::File { path: path.clone(), source })?;
        settings = settings.nkey(seed.trim().to_owned());
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_timeouts_in_a_row_leave_the_server() {
        let start = Instant::now();
        let mut health = Health::default();
        let mut note = |sign, seconds| health.note(sign, start + Duration::from_secs(seconds));
        assert_eq!(note(Sign::TimedOut(Kind::Read), 0), None);
        assert_eq!(note(Sign::TimedOut(Kind::Read), 5), None);
        assert_eq!(note(Sign::Answered(Kind::Read), 6), None);
        assert_eq!(note(Sign::TimedOut(Kind::Read), 10), None);
        assert_eq!(note(Sign::TimedOut(Kind::Read), 15), None);
        assert!(note(Sign::TimedOut(Kind::Read), 20).is_some());
        assert_eq!(note(Sign::TimedOut(Kind::Read), 25), None);
    }

    #[test]
    fn requests_that_time_out_together_count_once_and_moves_are_apart() {
        let start = Instant::now();
        let mut health = Health::default();
        for _ in 0..100 {
            assert_eq!(health.note(Sign::TimedOut(Kind::Read), start), None);
        }
        let moves = (1..=20_u64)
            .filter(|s| {
                health.note(Sign::TimedOut(Kind::Read), start + Duration::from_secs(*s)).is_some()
            })
            .collect::<Vec<_>>();
        assert_eq!(moves, [2, 12]);
    }

    #[test]
    fn answered_reads_do_not_excuse_lost_writes() {
        let start = Instant::now();
        let mut health = Health::default();
        let mut note = |sign, seconds| health.note(sign, start + Duration::from_secs(seconds));
        for seconds in [0, 6] {
            assert_eq!(note(Sign::TimedOut(Kind::Write), seconds), None);
            assert_eq!(note(Sign::Answered(Kind::Read), seconds + 1), None);
        }
        assert!(note(Sign::TimedOut(Kind::Write), 12).is_some());
        assert_eq!(note(Sign::TimedOut(Kind::Write), 30), None);
        assert_eq!(note(Sign::TimedOut(Kind::Write), 36), None);
        assert_eq!(note(Sign::Answered(Kind::Write), 37), None);
        assert_eq!(note(Sign::TimedOut(Kind::Write), 42), None);
        assert_eq!(note(Sign::Answered(Kind::Read), 50), None);
        assert_eq!(note(Sign::Unavailable, 53), None);
        assert!(note(Sign::Unavailable, 54).is_some());
    }

    #[test]
    fn a_write_that_stays_in_flight_is_left_behind() {
        let start = Instant::now();
        let mut health = Health::default();
        let mut note = |sign, seconds| health.note(sign, start + Duration::from_secs(seconds));
        assert_eq!(note(Sign::InFlight, 0), None);
        assert_eq!(note(Sign::Answered(Kind::Write), 1), None);
        for seconds in 2..14 {
            assert_eq!(note(Sign::InFlight, seconds), None);
            assert_eq!(note(Sign::Answered(Kind::Read), seconds), None);
        }
        assert!(note(Sign::InFlight, 14).is_some());
    }

    #[test]
    fn an_election_is_waited_for_and_a_cut_off_server_is_left() {
        let start = Instant::now();
        let mut health = Health::default();
        assert_eq!(health.note(Sign::Unavailable, start), None);
        assert_eq!(health.note(Sign::Unavailable, start + Duration::from_secs(9)), None);
        assert!(health.note(Sign::Unavailable, start + Duration::from_secs(12)).is_some());
    }

    #[test]
    fn a_login_in_an_address_is_used_without_its_escapes() {
        let of = |text: &str| login(&addresses(&[text.to_owned()]).unwrap());
        let (user, password) = ("u".to_owned(), "p@s:/%2".to_owned());
        assert_eq!(of("a:1,nats://u:p%40s%3A%2F%2@b:2"), Some(Login::Password { user, password }));
        assert_eq!(of("nats://t0ken@b:2"), Some(Login::Token("t0ken".into())));
        assert_eq!(of("b:2"), None);
    }

    #[test]
    fn addresses_are_read_and_never_shown_with_a_password() {
        let list = ["nats://u:secret@a:4222, b:4223".to_owned()];
        let hosts: Vec<_> = addresses(&list).unwrap().iter().map(|a| a.host().to_owned()).collect();
        assert_eq!(hosts, ["a", "b"]);
        let error = addresses(&["nats://u:secret@ho st:x".to_owned()]).unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
