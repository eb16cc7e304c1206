//! The nats-server under `dev`: one of its own, or one that runs already.
//!
//! Invariant: a server of our own ends with us: on a stop by hand, on a crash by the guard, and at the latest when
//! the next `dev` takes its data folder.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use cronstream_bus::{Bus, Error as BusError};
use cronstream_server::{Error as ServerError, Owner, Server, ServerConfig, end_orphan, ensure};
use tokio::process::Child;
use tokio::time::timeout;

use super::folder::Folder;
use crate::args::{self, Connection};
use crate::error::Error;
use crate::output::Output;
use crate::session::Session;

/// The port that clients try when none is named.
const PORT_USUAL: u16 = 4222;
/// How long the server may take to end in order; then it is killed.
const END_MAX: Duration = Duration::from_millis(800);
/// Ends of the server in a row, each within [`HEALTHY_AFTER`] of its start, that are met with a new start.
const REVIVALS_MAX: u32 = 5;
/// After this long a server counts as healthy.
const HEALTHY_AFTER: Duration = Duration::from_secs(30);

/// The server, and how it is reached.
#[derive(Debug)]
pub(super) struct Broker {
    connection: Connection,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    server: Server,
    guard: Child,
    started: Instant,
    revivals: u32,
}

impl Broker {
    /// Starts a server on the folder, unless the arguments name one.
    pub(super) async fn start(
        session: &Session,
        dev: &args::Dev,
        folder: &Folder,
    ) -> Result<Self, Error> {
        let given = session.connection();
        if given.nats.is_some() || given.context.is_some() {
            if dev.port.is_some() {
                let text =
                    "--port is for a server that dev starts, --nats and --context name another";
                return Err(Error::Usage(text.into()));
            }
            return Ok(Self { connection: given.clone(), own: None });
        }
        if given.creds.is_some() || given.nkey.is_some() || given.tls_ca.is_some() {
            let text = "--creds, --nkey and --tls-ca are for a server that runs: name it by --nats";
            return Err(Error::Usage(text.into()));
        }
        let out = session.out;
        let dir = folder.file("nats");
        let binary = ensure(&mut |line| out.talk(line)).await?;
        if let Some(pid) = end_orphan(&dir, Owner::Gone).await? {
            out.talk(&format!(
                "ended nats-server {pid}, left by a `cronstream dev` that was killed"
            ));
        }
        let server = listening(out, dev.port, dir.clone(), &binary).await?;
        let url = server.url();
        out.talk(&format!(
            "nats-server {} ({}) on {url}, process {}",
            binary.version,
            binary.path.display(),
            server.pid()
        ));
        if server.port() != PORT_USUAL {
            out.talk(&format!(
                "in another terminal, so that cronstream finds it: export NATS_URL={url}"
            ));
        }
        let guard = spawn_guard(dir)?;
        let own = Own { server, guard, started: Instant::now(), revivals: 0 };
        let connection = Connection { nats: Some(url), ..given.clone() };
        Ok(Self { connection, own: Some(own) })
    }

    /// How it is reached.
    pub(super) const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Refuses a server that lacks what Cronstream stands on.
    pub(super) async fn check(&self, bus: &Bus) -> Result<(), Error> {
        match bus.probe().await?.require() {
            Err(error @ BusError::Unsupported { .. }) if self.own.is_none() => {
                Err(Error::Unfit(error))
            }
            done => Ok(done?),
        }
    }

    /// Waits for the end of a server of our own. May be dropped and called again.
    pub(super) async fn ended(&mut self) -> Result<ExitStatus, Error> {
        match &mut self.own {
            Some(own) => Ok(own.server.ended().await?),
            None => std::future::pending().await,
        }
    }

    /// Starts a server that has ended again, on its port and data.
    pub(super) async fn revive(&mut self, out: Output, status: ExitStatus) -> Result<(), Error> {
        let Some(own) = &mut self.own else { return Ok(()) };
        own.revivals = if own.started.elapsed() < HEALTHY_AFTER { own.revivals + 1 } else { 1 };
        if own.revivals > REVIVALS_MAX {
            let look = format!("see {}", own.server.log().display());
            return Err(Error::Ended { what: "nats-server".into(), status, look });
        }
        out.talk(&format!("nats-server ended ({status}): starting it again"));
        own.server.restart().await?;
        own.started = Instant::now();
        let (url, pid) = (own.server.url(), own.server.pid());
        out.talk(&format!("nats-server is back on {url}, process {pid}"));
        Ok(())
    }

    /// Ends a server of our own.
    pub(super) async fn end(self) -> Result<(), Error> {
        let Some(Own { mut server, mut guard, .. }) = self.own else { return Ok(()) };
        let stopped = match timeout(END_MAX, server.stop()).await {
            Ok(stopped) => stopped,
            Err(_) => server.kill().await,
        };
        guard.kill().await?;
        Ok(stopped?)
    }
}

/// A server on the port asked for, else on the usual one, else on a free one.
async fn listening(
    out: Output,
    port: Option<u16>,
    dir: PathBuf,
    binary: &cronstream_server::Binary,
) -> Result<Server, Error> {
    let config = |port: Option<u16>| ServerConfig { port, ..ServerConfig::new(dir.clone()) };
    match port {
        Some(0) => Ok(Server::start(binary, config(None)).await?),
        Some(port) => Ok(Server::start(binary, config(Some(port))).await?),
        None => match Server::start(binary, config(Some(PORT_USUAL))).await {
            Err(ServerError::PortTaken { .. }) => {
                out.talk(&format!("port {PORT_USUAL} is taken: using a free one"));
                Ok(Server::start(binary, config(None)).await?)
            }
            started => Ok(started?),
        },
    }
}

/// A process that ends the server on a folder when this process is gone.
pub(super) fn spawn_guard(dir: PathBuf) -> Result<Child, Error> {
    let mut command = tokio::process::Command::new(std::env::current_exe()?);
    command.arg("dev-guard").arg(dir).arg(std::process::id().to_string());
    // Its standard input ends with us, and by that it knows.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.process_group(0).kill_on_drop(true).spawn()?)
}
