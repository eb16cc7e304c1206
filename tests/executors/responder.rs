//! The other side of NATS tasks: it answers a request when the test says so, and as the test says.

use anyhow::{Context, Result};
use cronstream_schemas::header;
use cronstream_schemas::id::RunId;
use cronstream_tests::nats::{Message, Nats, Subscription};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::stage::PATIENCE;

/// What hears the requests of one subject.
#[derive(Debug)]
pub(crate) struct Responder {
    nats: Nats,
    requests: Subscription,
}

/// An attempt that waits for its answer.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) run: RunId,
    pub(crate) attempt: u32,
    pub(crate) token: u64,
    pub(crate) params: String,
    reply: String,
}

impl Responder {
    pub(crate) async fn start(urls: &[String], subject: &str) -> Result<Self> {
        let nats = Nats::connect(urls).await?;
        let requests = nats.subscribe(subject).await?;
        // Its answer says that the server has the subscription.
        nats.ask("INFO", &serde_json::Value::Null).await?;
        Ok(Self { nats, requests })
    }

    /// The next attempt that asks.
    pub(crate) async fn next(&mut self) -> Result<Request> {
        let message = timeout(PATIENCE, self.requests.next()).await.context("nobody asks")??;
        Request::read(&message)
    }

    /// Answers an attempt; one that no longer waits does not hear it.
    pub(crate) async fn answer(&self, request: &Request, status: &str, body: &str) -> Result<()> {
        let headers = vec![(header::STATUS.to_owned(), status.to_owned())];
        self.nats.publish(&request.reply, &headers, body.as_bytes()).await
    }

    /// Answers whoever asks from now on with what it was asked, until this is dropped.
    pub(crate) fn echo_for_ever(mut self) -> AbortOnDropHandle<Result<()>> {
        AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                let request = Request::read(&self.requests.next().await?)?;
                self.answer(&request, "ok", &request.params).await?;
            }
        }))
    }
}

impl Request {
    fn read(message: &Message) -> Result<Self> {
        let header = |name| message.header(name).with_context(|| format!("no header {name}"));
        Ok(Self {
            run: header(header::RUN)?.parse()?,
            attempt: header(header::ATTEMPT)?.parse()?,
            token: header(header::FENCING_TOKEN)?.parse()?,
            params: String::from_utf8(message.body.clone())?,
            reply: message.reply.clone().context("a request without reply")?,
        })
    }
}
