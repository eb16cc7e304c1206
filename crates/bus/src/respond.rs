//! Answering requests outside of JetStream, as a service that a NATS task asks does.
//!
//! Invariant: requests on one group are shared among its listeners, each goes to one of them.

use async_nats::{Subject, Subscriber};
use bytes::Bytes;
use futures::StreamExt;

use crate::connect::Bus;
use crate::error::Error;
use crate::message::{self, Headers};

/// An ear for requests on a subject.
#[derive(Debug)]
pub struct Requests {
    bus: Bus,
    subscriber: Subscriber,
}

/// One request.
#[derive(Debug)]
pub struct Request {
    /// Its body.
    pub payload: Bytes,
    bus: Bus,
    reply: Option<Subject>,
}

impl Bus {
    /// Listens for requests on a subject, as a member of a group.
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn requests(&self, subject: &str, group: &str) -> Result<Requests, Error> {
        let client = &self.inner.client;
        let subscribed = client.queue_subscribe(subject.to_owned(), group.to_owned()).await;
        let subscriber = subscribed.map_err(|_| Error::Unavailable { what: subject.to_owned() })?;
        Ok(Requests { bus: self.clone(), subscriber })
    }
}

impl Requests {
    /// The next request; `None` when the connection is closed for good.
    pub async fn next(&mut self) -> Option<Request> {
        let message = self.subscriber.next().await?;
        Some(Request { payload: message.payload, bus: self.bus.clone(), reply: message.reply })
    }
}

impl Request {
    /// Answers, unless no answer is asked for.
    ///
    /// # Errors
    /// When a header is not allowed, or the connection is closed.
    pub async fn answer(self, headers: &Headers, payload: Bytes) -> Result<(), Error> {
        let Some(reply) = self.reply else { return Ok(()) };
        self.bus.check_size(&reply, payload.len())?;
        let map = message::header_map(headers)?;
        let what = reply.to_string();
        let answered = self.bus.inner.client.publish_with_headers(reply, map, payload).await;
        answered.map_err(|_| Error::Unavailable { what })
    }
}
