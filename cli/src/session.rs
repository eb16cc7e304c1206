//! What every verb needs: where to write, how long to wait, and the connection, made when it is first used.

use std::time::Duration;

use cronstream_bus::Bus;

use crate::args::{Connection, Global};
use crate::connect;
use crate::error::Error;
use crate::output::Output;

/// One use of the command line.
#[derive(Debug)]
pub(crate) struct Session {
    /// Where answers go.
    pub(crate) out: Output,
    /// Whether they are JSON.
    pub(crate) json: bool,
    /// How long to wait for an answer.
    pub(crate) timeout: Duration,
    connection: Connection,
    role: &'static str,
}

impl Session {
    /// A session for a verb, which names its connection on the server.
    pub(crate) fn new(global: &Global, role: &'static str) -> Self {
        Self {
            out: Output::new(global.json),
            json: global.json,
            timeout: global.timeout.to_duration(),
            connection: global.connection.clone(),
            role,
        }
    }

    /// The connection that the arguments ask for.
    ///
    /// # Errors
    /// When they cannot be used or no server answers.
    pub(crate) async fn bus(&self) -> Result<Bus, Error> {
        connect::connect(&self.connection, self.role).await
    }

    /// The arguments of the connection.
    pub(crate) const fn connection(&self) -> &Connection {
        &self.connection
    }
}
