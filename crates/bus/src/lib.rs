//! The bus: everything Cronstream says to NATS and hears from it. The only crate that names the
//! client library.
//!
//! ```text
//!   topology, probe     the streams and the bucket, and whether the server can do it
//!   batch, append       writes that the store refuses when they are out of turn
//!   publish             commands, verdicts, requests outside of JetStream
//!   read, follow        one message; a whole stream from a place on, for ever
//!   lease, pull         who leads; the fires of a queue
//!   service             a node's status
//!   raw                 the client library alone, for `cronstream bench` to compare with
//! ```
//!
//! Invariants: messages go in and out raw, their meaning is the callers'; every operation is
//! bounded in time; an answer says whether something was done, was not done, or cannot be known.

mod append;
mod append_each;
mod batch;
mod connect;
mod error;
mod event;
mod exchange;
mod follow;
mod lease;
mod message;
mod names;
mod probe;
mod publish;
mod pull;
mod raw;
mod read;
mod respond;
mod ring;
mod service;
mod session;
mod settings;
mod topology;

pub use append::{Append, AppendAnswer};
pub use batch::{BATCH_BYTES, BATCH_MESSAGES, Batch, CommitAnswer, Prepared};
pub use connect::{Bus, ConnectOptions, REQUEST_TIMEOUT};
pub use error::Error;
pub use event::{Action, BusEvent};
pub use follow::{FOLLOW_QUEUE, Follow, FollowEvent, FollowOptions, From};
pub use lease::{LEASES_MAX, Lease, LeaseAnswer, LeaseEvent, LeaseWatch};
pub use message::{Headers, OutMessage, StoredMessage, Ttl};
pub use names::Names;
pub use probe::Capabilities;
pub use publish::Inbox;
pub use pull::{Delivery, FETCH_EXPIRES_MAX, FETCH_MAX, Queue, QueueState};
pub use raw::{Raw, RawMessage, RawPull, RawStored};
pub use read::{SUBJECTS_MAX, StreamState};
pub use respond::{Request, Requests};
pub use service::{NODES_MAX, NodeStatus, Release, Releases, ServiceInfo, Serving};
pub use settings::SERVER_CONF;
pub use topology::{Change, InitOptions, InitReport, Topology};
