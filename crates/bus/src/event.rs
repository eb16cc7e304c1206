//! What happens to the connection, told to whoever listens.
//!
//! A permission denial is told by the server beside the conversation, never as the answer of the
//! call that caused it: without these events such a call only times out.

use async_nats::{Event, ServerError};

/// What a denied operation was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Publishing.
    Publish,
    /// Subscribing.
    Subscribe,
}

/// Something that happened to the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BusEvent {
    /// Connected, for the first time or again.
    Connected,
    /// The connection was lost; the client looks for another server.
    Disconnected,
    /// The server asks its clients to leave.
    LameDuck,
    /// The connection is closed for good.
    Closed,
    /// A subscription's buffer was full, so messages were dropped.
    SlowConsumer,
    /// The server refused an operation of this user.
    Denied {
        /// What was tried.
        action: Action,
        /// Where.
        subject: String,
    },
    /// The bus left a server that did not answer.
    Moved {
        /// Why.
        reason: &'static str,
    },
    /// Any other error told by the server or met by the client.
    Error(String),
}

impl BusEvent {
    pub(crate) fn from_client(event: &Event) -> Option<Self> {
        Some(match event {
            Event::Connected => Self::Connected,
            Event::Disconnected => Self::Disconnected,
            Event::LameDuckMode => Self::LameDuck,
            Event::Closed => Self::Closed,
            Event::Draining => return None,
            Event::SlowConsumer(_) | Event::ServerError(ServerError::SlowConsumer(_)) => {
                Self::SlowConsumer
            }
            Event::ServerError(ServerError::Other(text)) => {
                denial(text).unwrap_or_else(|| Self::Error(text.clone()))
            }
            Event::ServerError(ServerError::AuthorizationViolation) => {
                Self::Error("authorization violation".into())
            }
            Event::ClientError(error) => Self::Error(error.to_string()),
        })
    }

    pub(crate) fn trace(&self) {
        match self {
            Self::Connected => tracing::info!("connected to nats"),
            Self::Disconnected => tracing::warn!("disconnected from nats"),
            Self::LameDuck => tracing::warn!("nats server is leaving (lame duck)"),
            Self::Closed => tracing::info!("nats connection closed"),
            Self::SlowConsumer => tracing::warn!("slow consumer: messages were dropped"),
            Self::Denied { action, subject } => {
                tracing::error!(?action, subject, "permission denied");
            }
            Self::Moved { reason } => tracing::warn!(reason, "leaving this nats server"),
            Self::Error(error) => tracing::warn!(error, "nats error"),
        }
    }
}

/// Reads `Permissions Violation for Publish to "subject"`.
fn denial(text: &str) -> Option<BusEvent> {
    let (_, rest) = text.split_once("Permissions Violation for ")?;
    let action = if rest.starts_with("Publish") {
        Action::Publish
    } else if rest.starts_with("Subscription") {
        Action::Subscribe
    } else {
        return None;
    };
    let subject = rest.split('"').nth(1)?.to_owned();
    Some(BusEvent::Denied { action, subject })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permission_violation_names_what_was_denied() {
        let denied =
            |action, subject: &str| Some(BusEvent::Denied { action, subject: subject.into() });
        let cases = [
            (
                r#"Permissions Violation for Publish to "cron.define.a.b""#,
                denied(Action::Publish, "cron.define.a.b"),
            ),
            (
                r#"Permissions Violation for Subscription to "_INBOX.x.*""#,
                denied(Action::Subscribe, "_INBOX.x.*"),
            ),
            (
                r#"Permissions Violation for Subscription to "a" using queue "q""#,
                denied(Action::Subscribe, "a"),
            ),
            ("Permissions Violation for Import of", None),
            ("maximum connections exceeded", None),
        ];
        for (text, expected) in cases {
            assert_eq!(denial(text), expected, "{text}");
        }
    }
}
