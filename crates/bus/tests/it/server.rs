//! nats-servers for tests: found on PATH or in Cronstream's cache folder, on free loopback ports,
//! killed at the end.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use cronstream_bus::{Bus, ConnectOptions, InitOptions};
use tempfile::TempDir;

/// How long anything in these tests may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// One nats-server with its data folder.
pub(crate) struct Server {
    pub(crate) dir: PathBuf,
    port: u16,
    extra: String,
    child: Child,
    _own: Option<TempDir>,
}

impl Server {
    /// A single server with JetStream.
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// A single server with more lines of configuration.
    pub(crate) fn start_with(extra: &str) -> Self {
        let own = tempfile::tempdir().unwrap();
        let dir = own.path().to_path_buf();
        let mut server = Self::spawn(&dir, free_port(), extra);
        server._own = Some(own);
        server
    }

    /// A single server that has room for 64 MB.
    pub(crate) fn start_small() -> Self {
        let store = tempfile::tempdir().unwrap();
        let dir = store.path().join("data");
        let extra = format!("jetstream {{ store_dir: {dir:?}, max_file_store: 64MB }}");
        let mut server = Self::start_with(&extra);
        server._own = Some(store);
        server
    }

    /// A single server that knows nothing of streams.
    pub(crate) fn start_without_jetstream() -> Self {
        Self::start_with("jetstream: disabled")
    }

    fn spawn(dir: &Path, port: u16, extra: &str) -> Self {
        let store = dir.join("data");
        let config =
            format!("listen: 127.0.0.1:{port}\njetstream {{ store_dir: {store:?} }}\n{extra}\n");
        let path = dir.join("server.conf");
        std::fs::write(&path, config).unwrap();
        let log = std::fs::File::create(dir.join("log")).unwrap();
        let child = Command::new(binary())
            .arg("-c")
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let server =
            Self { dir: dir.to_path_buf(), port, extra: extra.to_owned(), child, _own: None };
        server.wait_until_it_listens();
        server
    }

    fn wait_until_it_listens(&self) {
        let start = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let log = || std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            assert!(start.elapsed() < DEADLINE, "nats-server does not listen: {}", log());
            std::thread::yield_now();
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// SIGKILL: nothing is flushed, nobody is told.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").arg(format!("-{name}")).arg(pid).status().unwrap();
        assert!(sent.success());
    }

    /// The same server again, with the same data.
    pub(crate) fn restart(&mut self) {
        let again = Self::spawn(&self.dir.clone(), self.port, &self.extra.clone());
        let old = std::mem::replace(self, again);
        self._own = old.disown();
    }

    /// Kills the server, starts it again, and waits until the connection is made anew.
    pub(crate) async fn kill_and_restart(&mut self, bus: &Bus) {
        let mut connects = bus.connects();
        connects.mark_unchanged();
        self.kill();
        self.restart();
        within("a new connection", connects.changed()).await.unwrap();
    }

    fn disown(mut self) -> Option<TempDir> {
        self._own.take()
    }

    pub(crate) fn options(&self) -> ConnectOptions {
        options(&[self.url()])
    }

    /// A connection to an installation that is ready.
    pub(crate) async fn bus(&self) -> Bus {
        let bus = Bus::connect(self.options()).await.unwrap();
        bus.init(&init(1)).await.unwrap();
        bus
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Three servers in a cluster.
pub(crate) struct Cluster {
    pub(crate) servers: Vec<Server>,
    _dir: TempDir,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let routes: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let urls: Vec<String> = routes.iter().map(|p| format!("nats://127.0.0.1:{p}")).collect();
        let servers = (0..3)
            .map(|i| {
                let own = dir.path().join(format!("n{i}"));
                std::fs::create_dir(&own).unwrap();
                let extra = format!(
                    "server_name: n{i}\ncluster {{ name: test, listen: \"127.0.0.1:{}\", routes: [{}] }}",
                    routes[i],
                    urls.join(", ")
                );
                Server::spawn(&own, free_port(), &extra)
            })
            .collect();
        Self { servers, _dir: dir }
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Server::url).collect()
    }

    /// A connection to an installation that is ready, with three replicas.
    pub(crate) async fn bus(&self) -> Bus {
        let bus = Bus::connect(options(&self.urls())).await.unwrap();
        bus.init(&init(3)).await.unwrap();
        bus
    }
}

pub(crate) fn options(servers: &[String]) -> ConnectOptions {
    ConnectOptions { servers: servers.to_vec(), name: "test".into(), ..ConnectOptions::default() }
}

pub(crate) fn init(replicas: u8) -> InitOptions {
    InitOptions {
        replicas,
        lease_ttl: Duration::from_secs(2),
        meta: br#"{"partitions":8}"#.to_vec(),
    }
}

/// Runs a future with the deadline of these tests.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("{what}: too late"))
}

/// A port that nobody listens on and that no other server of these tests was given.
fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if GIVEN.lock().unwrap().insert(port) {
            return port;
        }
    }
}

fn binary() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    std::env::split_paths(&path)
        .chain(cache.map(|cache| cache.join("cronstream/bin")))
        .map(|dir| dir.join("nats-server"))
        .find(|file| file.is_file())
        .expect("nats-server is on PATH or in cronstream's cache folder")
}
