//! Every node answers as a NATS micro service: `nats micro ls` finds it, and `status` and `doctor`
//! read it.

use std::collections::HashMap;
use std::time::Duration;

use async_nats::service::{Service, ServiceExt};
use async_nats::{Subject, Subscriber};
use bytes::Bytes;
use futures::StreamExt;
use tokio::task::JoinHandle;

use crate::connect::Bus;
use crate::error::Error;

/// Nodes that are heard in one discovery, at most.
pub const NODES_MAX: usize = 4096;
/// After this long without another node, a discovery is over.
const QUIET_AFTER: Duration = Duration::from_millis(500);

/// Who a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceInfo {
    /// `ticker`, `executor` and the like; the service is called `cronstream-<role>`.
    pub role: String,
    /// The program's version, `major.minor.patch`.
    pub version: String,
    /// What else a node tells about itself: name, queue, tasks.
    pub metadata: HashMap<String, String>,
}

/// A node that answers. Dropping it, or stopping, ends the service.
#[derive(Debug)]
pub struct Serving {
    service: Option<Service>,
    answers: JoinHandle<()>,
}

/// A node's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// What it says about itself: JSON, as the node made it.
    pub payload: Bytes,
}

/// A ticker's ear for the end of its hold.
#[derive(Debug)]
pub struct Releases {
    bus: Bus,
    subscriber: Subscriber,
}

/// Somebody asks that the hold end.
#[derive(Debug)]
pub struct Release {
    bus: Bus,
    reply: Option<Subject>,
}

impl Releases {
    /// The next such question; `None` when the connection is closed for good.
    pub async fn next(&mut self) -> Option<Release> {
        let message = self.subscriber.next().await?;
        Some(Release { bus: self.bus.clone(), reply: message.reply })
    }
}

impl Release {
    /// Answers with the node's status, as it is after the release.
    pub async fn answer(self, status: Bytes) {
        if let Some(reply) = self.reply
            && let Err(error) = self.bus.inner.client.publish(reply, status).await
        {
            tracing::debug!(%error, "release not answered");
        }
    }
}

impl Serving {
    /// Ends the service.
    pub async fn stop(mut self) {
        self.answers.abort();
        if let Some(service) = self.service.take() {
            // It cannot fail once the verbs' task runs.
            service.stop().await.ok();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.answers.abort();
        if let Some(service) = self.service.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(service.stop());
        }
    }
}

impl Bus {
    /// Answers as a service, with `status` asked anew for each question.
    ///
    /// # Errors
    /// When the name or version is not one a service may have, or the connection is closed.
    pub async fn serve(
        &self,
        info: ServiceInfo,
        status: impl Fn() -> Bytes + Send + 'static,
    ) -> Result<Serving, Error> {
        let name = format!("cronstream-{}", info.role);
        let failed = |source| Error::Service { what: name.clone(), source };
        let id = uuid::Uuid::new_v4().simple().to_string();
        let service = self
            .inner
            .client
            .service_builder()
            .description("Cronstream, an event-sourced job scheduler")
            .metadata(info.metadata)
            .start(&name, &info.version)
            .await
            .map_err(failed)?;
        // A queue group of its own, so that every node answers and not one of them.
        let endpoint = service.endpoint_builder().name("STATUS").queue_group(id);
        let failed = |source| Error::Service { what: name.clone(), source };
        let mut questions = endpoint.add(&self.names().status).await.map_err(failed)?;
        let answers = tokio::spawn(async move {
            while let Some(question) = questions.next().await {
                if let Err(error) = question.respond(Ok(status())).await {
                    tracing::debug!(%error, "status not answered");
                }
            }
        });
        Ok(Serving { service: Some(service), answers })
    }

    /// The nodes of this installation that answer within the timeout; ends earlier when no more
    /// come.
    ///
    /// # Errors
    /// When the question cannot be asked.
    pub async fn discover(&self, timeout: Duration) -> Result<Vec<NodeStatus>, Error> {
        self.ask_all(self.names().status.clone(), timeout, |_| false).await
    }

    /// The same, but no longer than until `enough` says of a node that no more need to be heard.
    ///
    /// # Errors
    /// When the question cannot be asked.
    pub async fn discover_until(
        &self,
        timeout: Duration,
        enough: impl FnMut(&NodeStatus) -> bool,
    ) -> Result<Vec<NodeStatus>, Error> {
        self.ask_all(self.names().status.clone(), timeout, enough).await
    }

    /// Tells every ticker that its hold has ended, and gives the answers of those that heard it.
    ///
    /// # Errors
    /// When it cannot be told.
    pub async fn release(&self, timeout: Duration) -> Result<Vec<NodeStatus>, Error> {
        self.ask_all(self.names().release.clone(), timeout, |_| false).await
    }

    /// Listens for the end of a hold.
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn releases(&self) -> Result<Releases, Error> {
        let what = self.names().release.clone();
        let subscribed = self.inner.client.subscribe(what.clone()).await;
        let subscriber = subscribed.map_err(|_| Error::Unavailable { what })?;
        Ok(Releases { bus: self.clone(), subscriber })
    }

    async fn ask_all(
        &self,
        what: String,
        timeout: Duration,
        mut enough: impl FnMut(&NodeStatus) -> bool,
    ) -> Result<Vec<NodeStatus>, Error> {
        if !self.is_connected() {
            return Err(Error::Unavailable { what });
        }
        let client = &self.inner.client;
        let inbox = client.new_inbox();
        let unavailable = || Error::Unavailable { what: what.clone() };
        let mut answers = client.subscribe(inbox.clone()).await.map_err(|_| unavailable())?;
        let broken = self.broken(|denied| denied == what);
        let asked = client.publish_with_reply(what.clone(), inbox, Bytes::new()).await;
        asked.map_err(|_| unavailable())?;
        let mut nodes = Vec::new();
        let listen = async {
            let mut patience = timeout;
            while nodes.len() < NODES_MAX
                && let Ok(Some(answer)) = tokio::time::timeout(patience, answers.next()).await
            {
                // Nobody listens there.
                if answer.status.is_some() {
                    break;
                }
                let node = NodeStatus { payload: answer.payload };
                let is_last = enough(&node);
                nodes.push(node);
                if is_last {
                    break;
                }
                patience = QUIET_AFTER.min(timeout);
            }
        };
        tokio::select! {
            _ = tokio::time::timeout(timeout, listen) => Ok(nodes),
            failure = broken => Err(failure.into_error(&what)),
        }
    }
}
