//! Durable consumers: that of a queue, from which executors pull as many fires as they have room for, and that of the
//! relays.
//!
//! Invariant: a fetch asks once and reads until its pull is over; there is no background buffer, so
//! no fire waits in a process that has no room for it.

use std::pin::Pin;
use std::time::Duration;

use async_nats::{Message, Subject, Subscriber};
use bytes::Bytes;
use futures::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::connect::Bus;
use crate::error::Error;
use crate::exchange::{Failure, code};
use crate::message::StoredMessage;
use crate::session::{Place, stored};
use crate::settings::{self, nanos};

/// Deliveries asked for at a time, at most.
pub const FETCH_MAX: usize = 1000;
/// The durable that all relays of an installation share.
const RELAY: &str = "relay";
/// The longest a fetch waits for the first delivery.
pub const FETCH_EXPIRES_MAX: Duration = Duration::from_secs(30);
/// The shortest.
const FETCH_EXPIRES_MIN: Duration = Duration::from_millis(100);
/// How often the server says that it is there while it has nothing to deliver.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// So long without delivery or heartbeat ends a fetch; so does its own end and this.
const SILENCE_MAX: Duration = Duration::from_millis(2500);

/// A durable consumer.
#[derive(Debug, Clone)]
pub struct Queue {
    bus: Bus,
    stream: String,
    name: String,
    filter: String,
    config: Map<String, Value>,
}

/// How a queue stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub struct QueueState {
    /// Fires that wait.
    #[serde(rename = "num_pending")]
    pub pending: u64,
    /// Fires that were delivered and are not settled.
    #[serde(rename = "num_ack_pending")]
    pub unsettled: u64,
    /// Pulls that wait for fires: executors with room.
    #[serde(rename = "num_waiting")]
    pub waiting: u64,
}

/// One delivery of one message.
#[derive(Debug)]
pub struct Delivery {
    /// The message.
    pub message: StoredMessage,
    /// Which delivery of it this is, from 1.
    pub delivered: u64,
    reply: Subject,
    bus: Bus,
}

impl Bus {
    /// The durable of a queue, made or brought up to date.
    ///
    /// # Errors
    /// When the log is not there or the user may not pull from this queue.
    pub async fn ensure_queue(&self, queue: &str, ack_wait: Duration) -> Result<Queue, Error> {
        let names = self.names();
        let filter = format!("{}.fire.{queue}.>", names.prefix());
        let config = settings::executor(queue, &filter, ack_wait);
        self.ensure_durable(&names.log, queue, filter, config).await
    }

    /// The durable of the relays, made or brought up to date.
    ///
    /// # Errors
    /// When the stream of spans is not there or the user may not pull from it.
    pub async fn ensure_relay(&self) -> Result<Queue, Error> {
        let names = self.names();
        let filter = format!("{}.trace.>", names.prefix());
        let config = settings::relay(RELAY, &filter);
        self.ensure_durable(&names.traces, RELAY, filter, config).await
    }

    async fn ensure_durable(
        &self,
        stream: &str,
        name: &str,
        filter: String,
        config: Map<String, Value>,
    ) -> Result<Queue, Error> {
        let (stream, name) = (stream.to_owned(), name.to_owned());
        let queue = Queue { bus: self.clone(), stream, name, filter, config };
        queue.ensure().await?;
        Ok(queue)
    }

    /// How a queue stands; `None` when it has no durable.
    ///
    /// # Errors
    /// When the log is not there or does not answer.
    pub async fn queue_state(&self, queue: &str) -> Result<Option<QueueState>, Error> {
        self.durable_state(&self.names().log, queue).await
    }

    /// The ack wait that is in force on a queue; `None` when it has no durable.
    ///
    /// # Errors
    /// When the log is not there or does not answer.
    pub async fn queue_ack_wait(&self, queue: &str) -> Result<Option<Duration>, Error> {
        #[derive(serde::Deserialize)]
        struct Info {
            config: Config,
        }
        #[derive(serde::Deserialize)]
        struct Config {
            ack_wait: u64,
        }
        let info: Option<Info> = self.durable_info(&self.names().log, queue).await?;
        Ok(info.map(|info| Duration::from_nanos(info.config.ack_wait)))
    }

    /// How the relays' durable stands; `None` when there never was a relay.
    ///
    /// # Errors
    /// When the stream of spans is not there or does not answer.
    pub async fn relay_state(&self) -> Result<Option<QueueState>, Error> {
        self.durable_state(&self.names().traces, RELAY).await
    }

    async fn durable_state(&self, stream: &str, name: &str) -> Result<Option<QueueState>, Error> {
        self.durable_info(stream, name).await
    }

    async fn durable_info<T: DeserializeOwned>(
        &self,
        stream: &str,
        name: &str,
    ) -> Result<Option<T>, Error> {
        let what = format!("CONSUMER.INFO.{stream}.{name}");
        match self.api(&what, &json!({})).await {
            Ok(state) => Ok(Some(state)),
            Err(Error::Refused { code: code::CONSUMER_NOT_FOUND, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A pull that is under way. Dropped before its end, deliveries on their way come again after the ack wait.
pub struct Pull<'a> {
    queue: &'a Queue,
    what: String,
    inbox: Subject,
    deliveries: Subscriber,
    connects: watch::Receiver<u64>,
    denied: Pin<Box<dyn Future<Output = Failure> + Send + 'a>>,
    expires: Duration,
    /// How many more are asked for.
    left: usize,
    got: usize,
}

impl std::fmt::Debug for Pull<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pull").field("queue", &self.queue.name).field("left", &self.left).finish()
    }
}

impl Pull<'_> {
    /// The next delivery; `None` when the pull is over. May be dropped and called again without loss.
    ///
    /// # Errors
    /// When the consumer cannot be pulled from, nor made again.
    pub async fn next(&mut self) -> Result<Option<Delivery>, Error> {
        while self.left > 0 {
            let received = tokio::select! {
                biased;
                received = self.deliveries.next() => received,
                _ = self.connects.changed() => None,
                failure = &mut self.denied => match failure.into_error(&self.what) {
                    Error::Denied { subject } => {
                        self.left = 0;
                        return Err(Error::Denied { subject });
                    }
                    _ => None,
                },
                () = tokio::time::sleep(SILENCE_MAX) => None,
            };
            let Some(received) = received else { break };
            match self.queue.read(received)? {
                Read::Delivery(delivery) => {
                    self.left -= 1;
                    self.got += 1;
                    return Ok(Some(*delivery));
                }
                Read::On => {}
                Read::Crowded if self.got == 0 => {
                    self.left = 1;
                    let wait = in_line(self.expires);
                    self.queue.ask(&self.what, &self.inbox, &wait).await?;
                }
                Read::Missing if self.got == 0 => {
                    self.queue.ensure().await?;
                    break;
                }
                Read::Over | Read::Crowded | Read::Missing => break,
            }
        }
        self.left = 0;
        Ok(None)
    }
}

/// How reading a pull goes on after a message of the server.
enum Read {
    Delivery(Box<Delivery>),
    On,
    Over,
    /// Other executors' pulls ask for more than there is.
    Crowded,
    Missing,
}

/// A pull that gives what there is at once, and otherwise waits for some.
fn one_shot(n: usize, expires: Duration) -> Value {
    let mut request = in_line(expires);
    request["batch"] = json!(n);
    request["no_wait"] = json!(true);
    request
}

/// A pull that waits its turn for one message.
fn in_line(expires: Duration) -> Value {
    let mut request = json!({ "batch": 1, "expires": nanos(expires) });
    // The server wants two heartbeats in a pull's life or none.
    if expires >= 2 * HEARTBEAT {
        request["idle_heartbeat"] = json!(nanos(HEARTBEAT));
    }
    request
}

impl Queue {
    /// The queue's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    async fn ensure(&self) -> Result<(), Error> {
        let Self { stream, name, filter, config, .. } = self;
        let what = format!("CONSUMER.CREATE.{stream}.{name}.{filter}");
        let body = json!({ "stream_name": stream, "config": config });
        self.bus.api::<Value>(&what, &body).await?;
        Ok(())
    }

    /// Up to `n` deliveries: those there are, at once; when there are none, it waits until
    /// `expires` for some. Empty when none came, or when the connection or consumer was lost, which
    /// is made again: just fetch again.
    ///
    /// Dropped half-way, deliveries on their way come again after the ack wait.
    ///
    /// # Errors
    /// When the consumer cannot be pulled from, nor made again.
    pub async fn fetch(&self, n: usize, expires: Duration) -> Result<Vec<Delivery>, Error> {
        let mut pull = self.pull(n, expires).await?;
        let mut got = Vec::new();
        while let Some(delivery) = pull.next().await? {
            got.push(delivery);
        }
        Ok(got)
    }

    /// Asks as [`fetch`](Self::fetch) does, and gives each delivery when it comes.
    ///
    /// # Errors
    /// When the consumer cannot be asked.
    pub async fn pull(&self, n: usize, expires: Duration) -> Result<Pull<'_>, Error> {
        let what = format!("CONSUMER.MSG.NEXT.{}.{}", self.stream, self.name);
        if !self.bus.is_connected() {
            return Err(Error::Unavailable { what });
        }
        let n = n.clamp(1, FETCH_MAX);
        let expires = expires.clamp(FETCH_EXPIRES_MIN, FETCH_EXPIRES_MAX);
        let client = &self.bus.inner.client;
        let mut connects = self.bus.connects();
        connects.mark_unchanged();
        let inbox = Subject::from(client.new_inbox());
        let deliveries = client.subscribe(inbox.clone()).await;
        let deliveries = deliveries.map_err(|_| Error::Unavailable { what: what.clone() })?;
        self.ask(&what, &inbox, &one_shot(n, expires)).await?;
        let asked = what.clone();
        let denied = Box::pin(self.bus.broken(move |subject| subject.ends_with(&asked)));
        let queue = self;
        Ok(Pull { queue, what, inbox, deliveries, connects, denied, expires, left: n, got: 0 })
    }

    async fn ask(&self, what: &str, inbox: &str, request: &Value) -> Result<(), Error> {
        let (subject, body) = (format!("$JS.API.{what}"), Bytes::from(request.to_string()));
        let asked = self.bus.inner.client.publish_with_reply(subject, inbox.to_owned(), body).await;
        asked.map_err(|_| Error::Unavailable { what: what.to_owned() })
    }

    fn read(&self, received: Message) -> Result<Read, Error> {
        let status = received.status.map_or(200, |status| status.as_u16());
        let text = received.description.as_deref().unwrap_or_default();
        match status {
            200 => {
                let place = received.reply.as_ref().and_then(|reply| Place::parse(reply));
                let (Some(place), Some(reply)) = (place, received.reply.clone()) else {
                    return Ok(Read::On);
                };
                let (message, bus) = (stored(received, place), self.bus.clone());
                let delivered = place.delivered;
                Ok(Read::Delivery(Box::new(Delivery { message, delivered, reply, bus })))
            }
            100 => Ok(Read::On),
            408 if text.eq_ignore_ascii_case("requests pending") => Ok(Read::Crowded),
            404 | 408 => Ok(Read::Over),
            503 => Ok(Read::Missing),
            409 if text.eq_ignore_ascii_case("consumer deleted") => Ok(Read::Missing),
            409 if is_passing(text) => Ok(Read::Over),
            other => Err(Error::Refused {
                what: format!("pull from queue {}", self.name),
                code: u64::from(other),
                description: text.to_owned(),
            }),
        }
    }
}

/// Conflicts (409) that say nothing about the next fetch.
fn is_passing(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["leadership change", "server shutdown", "batch completed", "message size exceeds maxbytes"]
        .iter()
        .any(|known| text.contains(known))
}

impl Delivery {
    /// Settles the message. It leaves this process with what is published next; when it is lost,
    /// the message comes again.
    ///
    /// # Errors
    /// When the connection is closed for good.
    pub async fn ack(&self) -> Result<(), Error> {
        self.answer(Bytes::from_static(b"+ACK")).await
    }

    /// Hands the message back, to come again after a while.
    ///
    /// # Errors
    /// When the connection is closed for good.
    pub async fn nak(&self, delay: Duration) -> Result<(), Error> {
        self.answer(format!("-NAK {}", json!({ "delay": nanos(delay) })).into()).await
    }

    /// Says that the work goes on, so the message does not come again before another ack wait.
    ///
    /// # Errors
    /// When the connection is closed for good.
    pub async fn progress(&self) -> Result<(), Error> {
        self.answer(Bytes::from_static(b"+WPI")).await
    }

    async fn answer(&self, body: Bytes) -> Result<(), Error> {
        let what = || format!("the answer to delivery {}", self.message.seq);
        if !self.bus.is_connected() {
            return Err(Error::Unavailable { what: what() });
        }
        let sent = self.bus.inner.client.publish(self.reply.clone(), body).await;
        sent.map_err(|_| Error::Unavailable { what: what() })
    }
}
