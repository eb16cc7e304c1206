//! The one error of this crate: a variant for each thing a caller or operator would do differently.

use std::path::PathBuf;

use cronstream_schemas::subject::PrefixError;

/// Why the bus could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The prefix is not a legal one.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// None of the servers took the connection.
    #[error("cannot connect to nats at {servers}")]
    Connect {
        /// The servers that were tried, without credentials.
        servers: String,
        /// What the last one said.
        #[source]
        source: async_nats::ConnectError,
    },
    /// A server address cannot be read.
    #[error("{0:?} is not a nats server address")]
    Address(String),
    /// A file with credentials or certificates cannot be used.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A stream or the bucket is not there.
    #[error("{what} does not exist on this server: run `cronstream init`")]
    NotInitialised {
        /// The stream or bucket.
        what: String,
    },
    /// The server lacks features that Cronstream stands on.
    #[error(
        "nats-server {version} lacks {}: use 2.12.1 or newer with jetstream",
        missing.join(", ")
    )]
    Unsupported {
        /// The server's version.
        version: String,
        /// The features that failed.
        missing: Vec<String>,
    },
    /// The user may not publish or subscribe there.
    #[error("permission denied for {subject}")]
    Denied {
        /// The subject as the server names it.
        subject: String,
    },
    /// The server or the stream's leader is not there now; nothing was done.
    #[error("{what} is not available now")]
    Unavailable {
        /// What was asked.
        what: String,
    },
    /// No answer came in time; whether it was done is not known.
    #[error("no answer to {what} in time")]
    TimedOut {
        /// What was asked.
        what: String,
    },
    /// JetStream refused the request.
    #[error("{what} refused: {description} ({code})")]
    Refused {
        /// What was asked.
        what: String,
        /// JetStream's error code.
        code: u64,
        /// Its text.
        description: String,
    },
    /// An answer cannot be read.
    #[error("the answer to {what} cannot be read")]
    Decode {
        /// What was asked.
        what: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A batch has too many messages.
    #[error("a batch of {count} messages is over the limit of {limit}")]
    TooMany {
        /// How many.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// A message or batch is too large.
    #[error("{what} of {size} bytes is over the limit of {limit}")]
    TooLarge {
        /// The message or batch.
        what: String,
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// A header would be read by the server as an instruction, or cannot be sent.
    #[error("header {0:?} may not be set by callers of the bus")]
    Header(String),
    /// A subject outside of what this call may publish to.
    #[error("subject {0:?} is not allowed here")]
    Subject(String),
    /// The embedded settings do not fit the request.
    #[error("{what} of {value} is outside of {range}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// The value asked for.
        value: String,
        /// What is possible.
        range: &'static str,
    },
    /// The service could not be started.
    #[error("cannot serve {what}")]
    Service {
        /// The service.
        what: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
